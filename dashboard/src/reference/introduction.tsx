/** What holds for every operation. */
export function Introduction({ text }: { text: string }) {
  return (
    <section
      aria-label="Introduction"
      className="max-w-[72ch] text-muted [&_code]:mono [&_code]:text-text [&_h2]:mt-6 [&_h2]:mb-1 [&_h2]:text-lg [&_h2]:font-semibold [&_h2]:text-text [&_p]:mt-2"
    >
      <p>{text.replaceAll('`', '')}</p>
      <h2>Authentication</h2>
      <p>
        If you’re signed in, requests from this page are sent as you, in the organization that you choose above.
        Elsewhere, send an access token as a bearer token. On the server, this prints one for a member of an
        organization:
      </p>
      <pre className="mono mt-2 break-words whitespace-pre-wrap rounded-control border border-line bg-sunken p-3 text-text">
        {'export TOKEN="$(npx inlay token --email you@example.com --org your-organization)"'}
      </pre>
      <p>
        The base URL is <code>{location.origin}/api</code>. To generate a client, use the{' '}
        <a className="link underline" href="/api/spec.json">
          OpenAPI document
        </a>
        .
      </p>
      <h2>Errors</h2>
      <p>
        Every error response is <code>{'{ defined, code, status, message, data }'}</code>. Use <code>data.code</code> to
        distinguish errors. If <code>defined</code> is false, the error isn’t specific to the operation, for example a
        body that is too large (413) or a server that is starting (503). Use <code>code</code> instead.
      </p>
      <h2>Retries</h2>
      <p>
        To safely retry a POST that creates something, send an <code>Idempotency-Key</code> header with a unique value,
        such as a UUID. For 24 hours, a request with the same key and the same input returns the first response again.
      </p>
      <h2>Limits</h2>
      <p>
        A request body can be up to 64 KiB (1 MiB for skills, 20 KiB for the ticket exchange). A JSON object can have up
        to 1,000 keys and 64 levels. The server closes a connection if the client doesn’t read a response for 30
        seconds.
      </p>
    </section>
  )
}
