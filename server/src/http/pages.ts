/** Escapes text for use in HTML content and attribute values. */
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

const mark =
  '<rect x="1.5" y="1.5" width="21" height="21" rx="6" fill="#0b6b5c"/><path d="M12 4.5 19.5 12 12 19.5 4.5 12Z" fill="#dcb25a"/><path d="M12 8.2 15.8 12 12 15.8 8.2 12Z" fill="#0b6b5c"/>'

const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">${mark}</svg>`)}`

const brand = `<p class="brand"><svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">${mark}</svg> Inlay</p>`

const style = `
:root { color-scheme: light dark; --ink: light-dark(#1a1c1a, #ecefec); --soft: light-dark(#626660, #a0a6a1);
  --paper: light-dark(#fafaf8, #111211); --card: light-dark(#fff, #181a19); --line: light-dark(#e5e4df, #2a2d2b);
  --edge: light-dark(#cfcec7, #3b3f3c); --accent: light-dark(#0b6b5c, #3fc7ae); --on-accent: light-dark(#fff, #06231e);
  --bad: light-dark(#b3261e, #f28b82) }
* { box-sizing: border-box }
body { margin: 0; padding: 3rem 1rem; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
main { max-width: 30rem; margin: auto; padding: 2rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  overflow-wrap: anywhere }
h1 { margin: 0 0 .5rem; font-size: 1.375rem; line-height: 1.3; letter-spacing: -.02em; font-weight: 600 }
.brand { display: flex; align-items: center; gap: .5rem; margin: 0 0 1.5rem; font-weight: 600; color: var(--ink) } p { margin: .5rem 0 1rem; color: var(--soft) }
label { display: block; margin-top: 1rem; font-weight: 600 } small { font-weight: 400; color: var(--soft) }
input { width: 100%; margin-top: .25rem; padding: .6rem .7rem; font: inherit; font-weight: 400; color: inherit; background: var(--paper);
  border: 1px solid var(--edge); border-radius: 8px }
button, .button { display: inline-block; margin-top: 1.5rem; padding: .65rem 1.1rem; font: inherit; font-weight: 600;
  color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: 8px; cursor: pointer; text-decoration: none }
button:is([name=demo], [value=cancel], [value=decline], [value=disconnect], .quiet) { color: inherit; background: none; border-color: var(--edge) }
button:is([value=accept], [value=decline]) { margin-top: 0 } form + :is(p, form) { margin-top: 1.5rem }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
a:not(.button) { color: var(--accent) } code, pre { font: .875em ui-monospace, monospace } dt { font-weight: 600 } dd { margin: 0 0 .75rem; color: var(--soft) }
pre { padding: .8rem; overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: 8px }
main > :last-child, dd:last-child { margin-bottom: 0 }
[role=alert] { color: var(--bad) }`

/** One of the server's own pages. `main` and `beside` are HTML; the caller escapes their parts. */
export const page = (
  title: string,
  main: string,
  more: { beside?: string; style?: string } = {},
): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Inlay</title><link rel="icon" href="${icon}"><style>${style}${more.style ?? ''}</style></head>
<body>${more.beside ?? ''}<main>${more.beside ? '' : brand}${main}</main></body></html>`

/** The policy allows only inline styles and images: no scripts. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}
