/** The text of a style sheet, minified. */
declare module '*.css' {
  const css: string
  export default css
}

/** URLs of the frame's view, and of its texts by language. The build inserts them, because they contain a hash of the file. */
declare const viewAddress: string
declare const textAddresses: Record<string, string>
