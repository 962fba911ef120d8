/** Text for a page: whatever it holds, it is text there. */
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

const style = `
:root { color-scheme: light dark; --ink: light-dark(#1a1d24, #eceef2); --soft: light-dark(#5b6272, #9aa3b5);
  --paper: light-dark(#f6f7f9, #14161b); --card: light-dark(#fff, #1d2027); --line: light-dark(#dfe2e8, #333845);
  --accent: light-dark(#3b5bdb, #8ea6ff); --bad: light-dark(#b42318, #ff9c92) }
* { box-sizing: border-box }
body { margin: 0; padding: 3rem 1rem; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
main { max-width: 34rem; margin: auto; padding: 2rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  overflow-wrap: anywhere }
h1 { margin: 0 0 .5rem; font-size: 1.5rem } p { margin: .5rem 0 1rem; color: var(--soft) }
label { display: block; margin-top: 1rem; font-weight: 600 } small { font-weight: 400; color: var(--soft) }
input { width: 100%; margin-top: .25rem; padding: .6rem .7rem; font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--line); border-radius: 8px }
button, .button { display: inline-block; margin-top: 1.5rem; padding: .65rem 1.1rem; font: inherit; font-weight: 600;
  color: var(--card); background: var(--accent); border: 0; border-radius: 8px; cursor: pointer; text-decoration: none }
button:is([name=demo], [value=cancel], [value=decline], [value=disconnect]) { color: inherit; background: none; border: 1px solid var(--line) }
button:is([value=accept], [value=decline]) { margin-top: 0 } form + :is(p, form) { margin-top: 1.5rem }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
a:not(.button) { color: var(--accent) } code, pre { font: .875em ui-monospace, monospace } dt { font-weight: 600 } dd { margin: 0 0 .75rem; color: var(--soft) }
pre { padding: .8rem; overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: 8px }
main > :last-child, dd:last-child { margin-bottom: 0 }
[role=alert] { color: var(--bad) }`

/** A page of the server itself; `main` and what stands beside it are HTML whose parts are already escaped. */
export const page = (
  title: string,
  main: string,
  more: { beside?: string; style?: string } = {},
): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Inlay</title><style>${style}${more.style ?? ''}</style></head>
<body>${more.beside ?? ''}<main>${main}</main></body></html>`

/** The style above and nothing else; no scripts. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}
