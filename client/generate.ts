import openapiTS, { astToString } from 'openapi-typescript'

/** Generates the types of all operations, in a separate package because the generator needs an older compiler. */
export async function generateClientTypes(document: Record<string, unknown>): Promise<string> {
  return `// Made from openapi.json by \`npm run generate\`.\n${astToString(await openapiTS(document as never))}`
}
