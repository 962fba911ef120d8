/**
 * Styles the launcher, the panel and the note in place of the frame; the frame has its own style. A closed panel is
 * hidden instead of removed, so that the frame stays connected. Opening has no visibility transition, because hidden
 * elements can't be focused. Comments are here, not in the string, because every visitor loads it.
 */
export const elementStyle = `
:host { display: block }
:host([hidden]) { display: none !important }
.agent {
  --accent: var(--inlay-accent, light-dark(#3b5bdb, #8ea6ff));
  --background: var(--inlay-background, light-dark(#fff, #1b1e25));
  --text: var(--inlay-text, light-dark(#1a1d24, #eceef2));
  --radius: var(--inlay-radius, 14px);
  font: 15px/1.5 var(--inlay-font, system-ui, sans-serif);
  color: var(--text);
}
.probe { position: absolute; visibility: hidden; color: light-dark(#fff, #000); transition: color 1ms }
.panel {
  display: flex; box-sizing: border-box; overflow: hidden;
  background: var(--background); border: 1px solid light-dark(#dfe2e8, #333845); border-radius: var(--radius);
}
iframe { flex: 1; width: 100%; min-width: 0; border: 0; color-scheme: inherit }
.note { margin: auto; padding: 1.5rem; max-width: 34rem; text-align: center; overflow-wrap: anywhere }
.is-noted iframe, .agent:not(.is-noted) .note { display: none }

.inline .panel { height: var(--inlay-height, max(var(--content-height, 0px), 12rem)); max-height: var(--inlay-height, 40rem) }
.inline .launcher { display: none }

.pip .panel, .fullscreen .panel { position: fixed; z-index: 2147483000; box-shadow: 0 12px 40px rgb(0 0 0 / .22) }
.pip .panel {
  inset: auto 1.25rem 5.25rem auto; width: min(24rem, calc(100vw - 2rem));
  height: min(var(--inlay-height, 34rem), calc(100dvh - 7rem));
}
.fullscreen .panel { inset: 0; border: 0; border-radius: 0 }
.agent:not(.inline, .is-open) .panel { visibility: hidden; opacity: 0; transform: translateY(.75rem) }
.launcher {
  position: fixed; inset: auto 1.25rem 1.25rem auto; z-index: 2147483000; width: 3.25rem; height: 3.25rem; padding: 0;
  display: grid; place-items: center; color: light-dark(#fff, #12141a); background: var(--accent);
  border: 0; border-radius: 50%; box-shadow: 0 4px 16px rgb(0 0 0 / .25); cursor: pointer;
}
.launcher svg {
  width: 1.6rem; height: 1.6rem; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round;
}
.badge {
  position: absolute; inset: -.25rem -.25rem auto auto; padding: .1rem .45rem; border-radius: 1rem;
  background: light-dark(#8a5a00, #e8b84b);
}
.badge:empty { display: none }
.fullscreen.is-open .launcher { display: none }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px }
@media (max-width: 30rem) { .pip .panel { inset: 1rem 1rem 5.25rem; width: auto; height: auto } }
@media (prefers-reduced-motion: no-preference) {
  .panel { transition: opacity .15s, transform .15s }
  .agent:not(.inline, .is-open) .panel { transition: opacity .15s, transform .15s, visibility 0s .15s }
}
`
