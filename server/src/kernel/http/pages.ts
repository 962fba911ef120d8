/** Escapes text for use in HTML content and attribute values. */
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

const mark =
  '<rect x="1.5" y="1.5" width="21" height="21" rx="6" fill="#0b6b5c"/><path d="M12 4.5 19.5 12 12 19.5 4.5 12Z" fill="#dcb25a"/><path d="M12 8.2 15.8 12 12 15.8 8.2 12Z" fill="#0b6b5c"/>'

const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">${mark}</svg>`)}`

const brand = `<p class="brand"><svg viewBox="0 0 24 24" width="28" height="28" aria-hidden="true">${mark}</svg> Inlay</p>`

const style = `
@font-face { font-family: Geist; src: url(/assets/geist-latin-wght-normal.woff2) format("woff2"); font-weight: 100 900; font-display: swap }
:root { color-scheme: light dark; --ink: light-dark(#1a1c1a, #ecefec); --soft: light-dark(#5d615b, #a0a6a1);
  --paper: light-dark(#fafaf8, #111211); --card: light-dark(#fff, #181a19); --sunken: light-dark(#f3f3ef, #0c0d0c);
  --line: light-dark(#e5e4df, #2a2d2b); --edge: light-dark(#cfcec7, #3b3f3c); --accent: light-dark(#0b6b5c, #3fc7ae);
  --hover: light-dark(#08574b, #63d6c1); --on-accent: light-dark(#fff, #06231e); --accent-soft: light-dark(#e3f1ed, #12302a);
  --bad: light-dark(#b3261e, #f28b82); --bad-soft: light-dark(#fbeae8, #3a1b18) }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; font: 450 14px/20px Geist, system-ui, sans-serif;
  color: var(--ink); background: var(--paper); -webkit-font-smoothing: antialiased }
main { width: 100%; max-width: 420px; padding: 28px; background: var(--card); border: 1px solid var(--line); border-radius: 12px; overflow-wrap: anywhere }
h1 { margin: 0 0 4px; font-size: 20px; line-height: 26px; letter-spacing: -.02em; font-weight: 600 }
.brand { display: flex; align-items: center; gap: 10px; margin: 0 0 18px; font-size: 15px; font-weight: 600; color: var(--ink) }
p { margin: 0 0 12px; color: var(--soft) } p strong { color: var(--ink); font-weight: 550 }
label { display: block; margin-top: 14px; font-size: 13px; line-height: 18px; font-weight: 550 } small { font-weight: 450; color: var(--soft) }
input { display: block; width: 100%; height: 36px; margin-top: 4px; padding: 0 10px; font: inherit; font-size: 14px; font-weight: 450; color: inherit;
  background: var(--card); border: 1px solid var(--edge); border-radius: 8px }
input:focus-visible { border-color: var(--accent); outline: 1px solid var(--accent); outline-offset: 0 }
button, .button { display: inline-flex; align-items: center; justify-content: center; min-height: 36px; margin-top: 18px; padding: 6px 14px;
  font: inherit; font-weight: 550; color: var(--on-accent); background: var(--accent); border: 1px solid transparent; border-radius: 8px; cursor: pointer;
  text-decoration: none }
button:hover, .button:hover { background: var(--hover) }
label + button, input + button { width: 100% }
button:is([name=demo], [value=cancel], [value=decline], [value=disconnect], .quiet) { color: inherit; background: none; border-color: var(--edge) }
button:is([name=demo], [value=cancel], [value=decline], [value=disconnect], .quiet):hover { background: var(--sunken) }
button:is([value=accept], [value=decline]) { margin-top: 0 } form + :is(p, form) { margin-top: 20px }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
a:not(.button) { color: var(--accent); text-underline-offset: 2px } code, pre { font: 12.5px/18px ui-monospace, monospace }
dt { font-size: 13px; line-height: 18px; color: var(--soft) } dd { margin: 0 0 12px; font-weight: 500 }
pre { padding: 10px 12px; overflow-x: auto; background: var(--sunken); border: 1px solid var(--line); border-radius: 8px }
main > :last-child, dd:last-child { margin-bottom: 0 }
[role=alert] { padding: 8px 12px; color: var(--bad); background: var(--bad-soft); border-radius: 8px }
[data-problem] > p { margin: 12px 0 0 }`

/** One of the server's own pages. `main` is HTML; the caller escapes its parts. `script` needs `scriptedPageHeaders`. */
export const page = (
  title: string,
  main: string,
  more: { style?: string; script?: string } = {},
): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Inlay</title><link rel="icon" href="${icon}"><style>${style}${more.style ?? ''}</style>${more.script ? `<script type="module" src="${more.script}"></script>` : ''}</head>
<body><main>${brand}${main}</main></body></html>`

/** The policy allows only inline styles and images: no scripts. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}

/** For pages with a script file of our own. Inline scripts stay forbidden. */
export const scriptedPageHeaders = {
  ...pageHeaders,
  'content-security-policy': `${pageHeaders['content-security-policy']}; script-src 'self'`,
}
