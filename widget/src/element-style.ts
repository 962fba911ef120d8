/**
 * Styles the launcher, the panel and the note in place of the frame; the frame has its own style. A closed panel is
 * hidden instead of removed, so that the frame stays connected. Opening has no visibility transition, because hidden
 * elements can't be focused. Lengths are in pixels, because many pages change the size of a `rem`. The mark is brass
 * only on our own accent. On phones, and on
 * screens that are zoomed in, the panel fills what the keyboard leaves of the screen, and has the only button
 * to close it. The panel is above the launcher, because browsers count the launcher's shadow as covering the frame; a
 * panel without a frame is below it. Comments are here, not in the string, because every visitor loads it.
 */
export const elementStyle = `
:host { display: block }
:host([hidden]) { display: none !important }
.agent {
  --accent: var(--inlay-accent, light-dark(#0b6b5c, #3fc7ae));
  --on-accent: var(--inlay-on-accent, light-dark(#fff, #06231e));
  --mark: var(--inlay-on-accent, light-dark(#dcb25a, #06231e));
  --background: var(--inlay-background, light-dark(#fff, #181a19));
  --text: var(--inlay-text, light-dark(#1a1c1a, #ecefec));
  --line: var(--inlay-line, light-dark(#e5e4df, #2a2d2b));
  --brass: light-dark(#8a6414, #dcb25a);
  --radius: var(--inlay-radius, 16px);
  --bottom: calc(20px + env(safe-area-inset-bottom));
  --top: max(8px, env(safe-area-inset-top));
  font-family: var(--inlay-font, inherit); font-size: 14px; line-height: 20px; color: var(--text);
}
.is-branded { --mark: var(--on-accent) }
.probe { position: absolute; visibility: hidden; color: light-dark(#fff, #000); transition: color 1ms }
.panel {
  display: flex; box-sizing: border-box; overflow: hidden;
  background: var(--background); border: 1px solid var(--line); border-radius: var(--radius);
}
iframe { flex: 1; width: 100%; min-width: 0; border: 0; color-scheme: inherit }
.note { margin: auto; padding: 24px; max-width: 540px; text-align: center; overflow-wrap: anywhere }
.is-noted iframe, .agent:not(.is-noted) .note { display: none }

.inline .panel { height: var(--inlay-height, max(var(--content-height, 0px), 192px)); max-height: var(--inlay-height, 640px) }
.inline .launcher { display: none }

.pip .panel, .fullscreen .panel { position: fixed; z-index: 2147483001; box-shadow: 0 1px 2px rgb(0 0 0 / .1), 0 12px 32px rgb(0 0 0 / .16) }
.is-noted .panel { z-index: 2147483000 }
.pip .panel {
  bottom: calc(var(--bottom) + 64px); width: min(var(--inlay-width, 400px), 100vw - 40px);
  height: min(var(--inlay-height, 640px), 100dvh - var(--bottom) - 64px - var(--top));
}
.fullscreen .panel {
  inset: 0; border: 0; border-radius: 0;
  padding: env(safe-area-inset-top) env(safe-area-inset-right) env(safe-area-inset-bottom) env(safe-area-inset-left);
}
.agent:not(.inline, .is-open) .panel { visibility: hidden; opacity: 0; transform: translateY(4px) }
.launcher {
  position: fixed; bottom: var(--bottom); z-index: 2147483000; width: 52px; height: 52px; padding: 0;
  display: grid; place-items: center; background: var(--accent); border: 1px solid #0000; border-radius: var(--radius);
  box-shadow: 0 1px 2px rgb(0 0 0 / .1), 0 6px 20px rgb(0 0 0 / .2); cursor: pointer;
}
.launcher, .pip .panel { right: 20px }
.is-left .launcher, .pip.is-left .panel { right: auto; left: 20px }
.launcher:hover { filter: brightness(.9) }
svg { width: 44px; height: 44px }
.mark { fill: var(--mark); fill-rule: evenodd }
.chevron { width: 24px; height: 24px; fill: none; stroke: var(--on-accent); stroke-width: 2; stroke-linecap: round }
.is-open .mark, .agent:not(.is-open) .chevron { display: none }
.badge {
  position: absolute; inset: -6px -6px auto auto; box-sizing: border-box; min-width: 20px; height: 20px; padding: 0 6px;
  border-radius: 10px; font: 600 12px/20px system-ui, sans-serif; color: light-dark(#fff, #111211);
  background: var(--brass); box-shadow: 0 0 0 2px var(--background);
}
.badge.is-dot { inset: -3px -3px auto auto; min-width: 12px; height: 12px; padding: 0; font-size: 0 }
.badge:empty { display: none }
.fullscreen.is-open:not(.is-noted) .launcher { display: none }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
@media (max-width: 30rem), (max-height: 30rem) {
  .pip .panel.panel {
    inset: calc(var(--view-top, 0px) + var(--top)) 0 auto; width: auto; height: calc(var(--view-height, 100dvh) - var(--top));
    padding-bottom: env(safe-area-inset-bottom); border-width: 1px 0 0; border-radius: var(--radius) var(--radius) 0 0;
  }
  .pip.is-open:not(.is-noted) .launcher { display: none }
}
@media (prefers-reduced-motion: no-preference) {
  .panel { transition: opacity .15s ease-out, transform .15s ease-out }
  .agent:not(.inline, .is-open) .panel { transition: .15s ease-out, visibility 0s .15s }
}
@media (forced-colors: active) {
  .mark { fill: ButtonText }
  .chevron { stroke: ButtonText }
  .badge { forced-color-adjust: none; color: HighlightText; background: Highlight }
}
@media print { .launcher, .agent:not(.inline) .panel { display: none } }
`
