import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidOrigin, matchesOrigin, parseOrigin, parseOriginPattern } from './origins.ts'

describe('parseOrigin', () => {
  test.each([
    ['https://example.com', 'https://example.com'],
    ['https://example.com:443', 'https://example.com'],
    ['https://example.com:8443', 'https://example.com:8443'],
    ['https://example.com:80', 'https://example.com:80'],
    ['HTTPS://Example.COM', 'https://example.com'],
    ['https://my_app-1.example.com', 'https://my_app-1.example.com'],
    ['https://bücher.example', 'https://xn--bcher-kva.example'],
    ['https://BÜCHER.example', 'https://xn--bcher-kva.example'],
    ['https://bu\u0308cher.example', 'https://xn--bcher-kva.example'],
    ['https://xn--bcher-kva.example', 'https://xn--bcher-kva.example'],
    ['https://intranet', 'https://intranet'],
    ['https://203.0.113.7:8443', 'https://203.0.113.7:8443'],
    ['https://[2001:db8::1]:8443', 'https://[2001:db8::1]:8443'],
    ['https://localhost', 'https://localhost'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['http://localhost:80', 'http://localhost'],
    ['http://app.localhost:5173', 'http://app.localhost:5173'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
    ['http://[::1]:3000', 'http://[::1]:3000'],
  ])('accepts %s', (text, canonical) => {
    expect(parseOrigin(text)).toBe(canonical)
  })

  test.each([
    ['', /https:/],
    ['null', /https:/],
    ['*', /https:/],
    ['example.com', /https:/],
    ['//example.com', /https:/],
    ['https:example.com', /https:/],
    ['https:/example.com', /https:/],
    ['https:\\\\example.com', /https:/],
    ['ftp://example.com', /https:/],
    ['wss://example.com', /https:/],
    ['file:///etc/passwd', /https:/],
    ['javascript://example.com', /https:/],
    ['blob:https://example.com', /https:/],
    ['http://example.com', /localhost/],
    ['http://localhost.example.com', /localhost/],
    ['http://notlocalhost', /localhost/],
    ['http://127.0.0.2', /localhost/],
    ['https://example.com/', /slash/],
    ['https://example.com/path', /slash/],
    ['https://example.com?query', /end after/],
    ['https://example.com#fragment', /end after/],
    ['https://example.com\\path', /end after/],
    ['https://user@example.com', /user name/],
    ['https://user:secret@example.com', /user name/],
    ['https://@example.com', /user name/],
    ['https://example.com@evil.test', /user name/],
    [' https://example.com', /spaces/],
    ['https://example.com\n', /spaces/],
    ['https://exam\tple.com', /spaces/],
    ['https://example.com\u0000', /spaces/],
    ['https://example.com https://other.test', /spaces/],
    ['https://', /host/],
    ['https://:443', /host/],
    ['https://example.com.', /dot/],
    ['https://example..com', /label/],
    ['https://.example.com', /label/],
    [`https://${'a'.repeat(64)}.com`, /label/],
    [`https://${'a.'.repeat(127)}com`, /label/],
    ['https://a;script-src.example.com', /label/],
    ["https://'self'", /label/],
    ['https://example.com,evil.test', /label/],
    ['https://*.example.com', /^Wildcards aren’t allowed here/],
    ['https://example.com:', /port/],
    ['https://example.com:0', /port/],
    ['https://example.com:0443', /port/],
    ['https://example.com:65536', /port/],
    ['https://example.com:http', /port/],
    ['https://example.com:+1', /port/],
    ['https://example.com:1:2', /host/],
    ['https://2001:db8::1', /host/],
    ['https://127.1', /127\.0\.0\.1/],
    ['https://0177.0.0.1', /127\.0\.0\.1/],
    ['https://0x7f000001', /127\.0\.0\.1/],
    ['https://2130706433', /127\.0\.0\.1/],
    ['https://127.0.0.1.', /127\.0\.0\.1/],
    ['https://256.0.0.1', /host/],
    ['https://[0:0:0:0:0:0:0:1]', /\[::1\]/],
    ['https://[::1%25eth0]', /host/],
    ['https://[::1]evil.test', /host/],
    ['https://[::1', /host/],
    ['https://ex%61mple.com', /written as example\.com/],
    ['https://ｅxample.com', /written as example\.com/],
    ['https://exa\u00admple.com', /written as example\.com/],
    ['https://example。com', /written as example\.com/],
  ])('rejects %j', (text, message) => {
    expect(() => parseOrigin(text)).toThrow(InvalidOrigin)
    expect(() => parseOrigin(text)).toThrow(message)
  })
})

describe('parseOriginPattern', () => {
  test.each([
    ['https://example.com', 'https://example.com'],
    ['https://*.example.com', 'https://*.example.com'],
    ['https://*.preview.example.com:8443', 'https://*.preview.example.com:8443'],
    ['HTTPS://*.Example.com:443', 'https://*.example.com'],
    ['https://*.bücher.example', 'https://*.xn--bcher-kva.example'],
    ['https://*.example.co.uk', 'https://*.example.co.uk'],
    ['https://*.acme.github.io', 'https://*.acme.github.io'],
    ['http://*.localhost:3000', 'http://*.localhost:3000'],
    ['http://*.app.localhost', 'http://*.app.localhost'],
  ])('accepts %s', (text, canonical) => {
    expect(parseOriginPattern(text)).toBe(canonical)
  })

  test.each([
    ['https://*.com', /anyone/],
    ['https://*.co.uk', /anyone/],
    ['https://*.github.io', /anyone/],
    ['https://*.vercel.app', /anyone/],
    ['https://*.ck', /anyone/],
    ['https://*.compute.estate', /anyone/],
    ['https://*.公司.cn', /anyone/],
    ['https://*.intranet', /anyone/],
    ['https://*.203.0.113.7', /IP address/],
    ['http://*.127.0.0.1', /IP address/],
    ['https://*.[2001:db8::1]', /IP address/],
    ['https://*.1', /written as/],
    ['https://*', /wildcard/],
    ['https://*.', /host/],
    ['https://*.*.example.com', /wildcard/],
    ['https://a.*.example.com', /wildcard/],
    ['https://*a.example.com', /wildcard/],
    ['https://a*.example.com', /wildcard/],
    ['https://*example.com', /wildcard/],
    ['https://**.example.com', /wildcard/],
    ['https://*.example.com:*', /wildcard/],
    ['*://*.example.com', /https:/],
    ['*.example.com', /https:/],
    ['https://%2A.example.com', /written as|host/],
    ['https://user@*.example.com', /user name/],
    ['https://*.user@example.com', /user name/],
    ['https://*.example.com/', /slash/],
    ['http://*.example.com', /localhost/],
    ['https://*.\nexample.com', /spaces/],
  ])('rejects %j', (text, message) => {
    expect(() => parseOriginPattern(text)).toThrow(InvalidOrigin)
    expect(() => parseOriginPattern(text)).toThrow(message)
  })
})

describe('matchesOrigin', () => {
  const patterns = [
    'https://example.com',
    'https://app.example.com:8443',
    'https://*.preview.example.com',
    'https://bücher.example',
    'http://*.localhost:3000',
  ].map(parseOriginPattern)

  test.each([
    'https://example.com',
    'https://EXAMPLE.com:443',
    'https://app.example.com:8443',
    'https://pr-1.preview.example.com',
    'https://xn--bcher-kva.example',
    'http://tenant.localhost:3000',
  ])('accepts %s', (origin) => {
    expect(matchesOrigin(origin, patterns)).toBe(true)
  })

  test.each([
    ['another scheme', 'http://example.com'],
    ['another port', 'https://example.com:8443'],
    ['a missing port', 'https://app.example.com'],
    ['a suffix', 'https://example.com.evil.test'],
    ['a prefix', 'https://evilexample.com'],
    ['a subdomain of an exact origin', 'https://www.example.com'],
    ['a user name', 'https://example.com@evil.test'],
    ['a path', 'https://evil.test/https://example.com'],
    ['a fragment', 'https://evil.test#https://example.com'],
    ['a backslash', 'https://evil.test\\.example.com'],
    ['a trailing dot', 'https://example.com.'],
    ['another letter', 'https://bucher.example'],
    ['a Cyrillic look-alike', 'https://ex\u0430mple.com'],
    ['a full-width look-alike', 'https://ｅxample.com'],
    ['the parent of a wildcard', 'https://preview.example.com'],
    ['two labels under a wildcard', 'https://a.b.preview.example.com'],
    ['an empty label under a wildcard', 'https://.preview.example.com'],
    ['the suffix of a wildcard', 'https://evilpreview.example.com'],
    ['the port of a wildcard', 'https://pr-1.preview.example.com:8443'],
    ['a wildcard itself', 'https://*.preview.example.com'],
    ['null', 'null'],
    ['nothing', ''],
    ['two origins', 'https://example.com, https://example.com'],
    ['a line break', 'https://example.com\r\n'],
  ])('rejects %s: %j', (_name, origin) => {
    expect(matchesOrigin(origin, patterns)).toBe(false)
  })

  test('rejects every origin if the list is empty', () => {
    expect(matchesOrigin('https://example.com', [])).toBe(false)
    expect(matchesOrigin('null', ['null'])).toBe(false)
  })
})

describe('for any text', () => {
  const part = fc.constantFrom(
    'https://',
    'http://',
    'localhost',
    'Example',
    'ß',
    'ü',
    '.',
    ':',
    '443',
    '8443',
    '@',
    '/',
  )
  const odd = fc.constantFrom(
    '127.0.0.1',
    '[::1]',
    '0x7f',
    '%2e',
    '*',
    '?',
    '#',
    '\\',
    ' ',
    '-',
    '_',
    'com',
    'xn--',
    '。',
  )
  const text = fc.oneof(
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc
      .webAuthority({ withIPv4: true, withIPv6: true, withPort: true, withUserInfo: true })
      .map((it) => `https://${it}`),
    fc.domain().map((domain) => `https://${domain.toUpperCase()}`),
    fc.array(fc.oneof(part, odd)).map((parts) => `https://${parts.join('')}`),
    fc.string({ unit: 'binary' }).map((host) => `https://${host}`),
    fc.string(),
  )

  function tryParse(origin: string): string | null {
    try {
      return parseOrigin(origin)
    } catch (error) {
      if (error instanceof InvalidOrigin) return null
      throw error
    }
  }

  test('the canonical form is canonical itself, is an origin to every URL parser, and matches itself', () => {
    let accepted = 0
    fc.assert(
      fc.property(text, (origin) => {
        const canonical = tryParse(origin)
        expect(matchesOrigin(origin, canonical === null ? [origin] : [canonical])).toBe(canonical !== null)
        if (canonical === null) return
        accepted++
        expect(parseOrigin(canonical)).toBe(canonical)
        expect(parseOriginPattern(canonical)).toBe(canonical)
        expect(new URL(canonical).origin).toBe(canonical)
        expect(new URL(origin).origin).toBe(canonical)
        expect(canonical).toMatch(/^https?:\/\/([a-z0-9_.-]+|\[[0-9a-f:]+\])(:\d+)?$/)
      }),
      { numRuns: 2000 },
    )
    expect(accepted).toBeGreaterThan(100)
  })

  test('a wildcard matches exactly one label', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,10}$/)
    fc.assert(
      fc.property(fc.array(label, { maxLength: 4 }), (labels) => {
        const origin = `https://${[...labels, 'preview.example.com'].join('.')}`
        expect(matchesOrigin(origin, ['https://*.preview.example.com'])).toBe(labels.length === 1)
      }),
    )
  })
})
