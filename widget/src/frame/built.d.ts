/** The text of a style sheet, minified. */
declare module '*.css' {
  const css: string
  export default css
}

/** Where the server has the frame's view. The build replaces it, since the address has the view's content in it. */
declare const viewAddress: string
