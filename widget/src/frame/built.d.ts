/** The text of a style sheet, minified. */
declare module '*.css' {
  const css: string
  export default css
}

/** URL of the frame's view. The build inserts it, because it contains a hash of the view. */
declare const viewAddress: string
