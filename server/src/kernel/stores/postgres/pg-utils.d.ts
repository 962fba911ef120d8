// The library's own parameter conversion, which its cursors import as well. It has no types.
declare module 'pg/lib/utils.js' {
  export function prepareValue(value: unknown): string | Buffer | null
}
