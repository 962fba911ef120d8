import type { Directory, Fields, Reply } from './resources.ts'
import { listReply, scimLimits } from './resources.ts'
import { type Attribute, describedSchemas, groupType, type ResourceType, userType } from './schemas.ts'
import { quote, ScimError } from './scim-error.ts'

/** The documents with which clients find out what the server can do (RFC 7644, section 4). */
export function describeServer({ url }: Directory, [kind, name]: readonly string[]): Reply | undefined {
  switch (kind) {
    case 'ServiceProviderConfig':
      return name === undefined ? { status: 200, body: describeService(url) } : undefined
    case 'ResourceTypes':
      return describe(
        [userType, groupType].map((type) => describeType(url, type)),
        name,
      )
    case 'Schemas':
      return describe(
        describedSchemas.map((schema) => describeSchema(url, schema)),
        name,
      )
  }
  return undefined
}

function describe(documents: (Fields & { id: string })[], name: string | undefined): Reply {
  if (name === undefined) return listReply(documents, documents.length, 1)
  const found = documents.find(({ id }) => id.toLowerCase() === name.toLowerCase())
  if (!found) throw new ScimError(404, `There is no document with the name ${quote(name)}.`)
  return { status: 200, body: found }
}

const describeService = (url: string): Fields => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: scimLimits.page },
  changePassword: { supported: false },
  sort: { supported: false },
  etag: { supported: true },
  authenticationSchemes: [
    {
      type: 'oauthbearertoken',
      name: 'Bearer token',
      description: 'The directory’s token from Inlay’s dashboard',
      specUri: 'https://www.rfc-editor.org/info/rfc6750',
      primary: true,
    },
  ],
  meta: { resourceType: 'ServiceProviderConfig', location: `${url}/ServiceProviderConfig` },
})

const describeType = (url: string, { name, endpoint, schema, extension }: ResourceType) => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: name,
  name,
  endpoint: `/${endpoint}`,
  schema,
  ...(extension && { schemaExtensions: [{ schema: extension.schema, required: false }] }),
  meta: { resourceType: 'ResourceType', location: `${url}/ResourceTypes/${name}` },
})

const describeSchema = (url: string, { id, name, description, attributes }: (typeof describedSchemas)[number]) => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
  id,
  name,
  description,
  attributes: attributes.map(describeAttribute),
  meta: { resourceType: 'Schema', location: `${url}/Schemas/${id}` },
})

const describeAttribute = (attribute: Attribute): Fields => ({
  name: attribute.name,
  type: attribute.type,
  multiValued: attribute.isMultiple ?? false,
  description: attribute.description,
  required: attribute.isRequired ?? false,
  ...(attribute.type !== 'boolean' && attribute.type !== 'complex' && { caseExact: attribute.isExact ?? false }),
  ...(attribute.type === 'reference' && { referenceTypes: ['external'] }),
  mutability: attribute.isReadOnly ? 'readOnly' : attribute.isIgnored ? 'writeOnly' : 'readWrite',
  returned: attribute.isIgnored ? 'never' : 'default',
  uniqueness: attribute.isUnique ? 'server' : 'none',
  ...(attribute.subAttributes && { subAttributes: attribute.subAttributes.map(describeAttribute) }),
})
