/** The attributes that Inlay understands (RFC 7643). Filters, patches and `/Schemas` are all derived from these tables. */

export interface Attribute {
  name: string
  type: 'string' | 'boolean' | 'dateTime' | 'reference' | 'complex'
  description: string
  isMultiple?: boolean
  isRequired?: boolean
  isReadOnly?: boolean
  /** Compared with regard to case. */
  isExact?: boolean
  isUnique?: boolean
  /** Accepted and never stored. */
  isIgnored?: boolean
  subAttributes?: readonly Attribute[]
}

export const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User'
export const enterpriseSchema = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
export const groupSchema = 'urn:ietf:params:scim:schemas:core:2.0:Group'
export const listSchema = 'urn:ietf:params:scim:api:messages:2.0:ListResponse'
export const errorSchema = 'urn:ietf:params:scim:api:messages:2.0:Error'

const text = (name: string, description: string, more: Partial<Attribute> = {}): Attribute => ({
  name,
  type: 'string',
  description,
  ...more,
})

/** A list of values with a type, such as `emails`. */
const values = (name: string, description: string, more: readonly Attribute[] = []): Attribute => ({
  name,
  type: 'complex',
  description,
  isMultiple: true,
  subAttributes: [
    text('value', 'The value'),
    text('display', 'Name to show'),
    text('type', 'Kind of the value, such as work or home'),
    { name: 'primary', type: 'boolean', description: 'Whether this is the preferred value' },
    ...more,
  ],
})

const common: readonly Attribute[] = [
  text('id', 'ID in Inlay', { isReadOnly: true, isExact: true, isUnique: true }),
  text('externalId', 'ID in your directory', { isExact: true }),
  {
    name: 'meta',
    type: 'complex',
    description: 'When the resource was created and changed',
    isReadOnly: true,
    subAttributes: [
      text('resourceType', 'Type of the resource', { isReadOnly: true, isExact: true }),
      { name: 'created', type: 'dateTime', description: 'When it was created', isReadOnly: true },
      { name: 'lastModified', type: 'dateTime', description: 'When it was last changed', isReadOnly: true },
      { name: 'location', type: 'reference', description: 'Its URL', isReadOnly: true, isExact: true },
      text('version', 'Its ETag', { isReadOnly: true, isExact: true }),
    ],
  },
]

const userAttributes: readonly Attribute[] = [
  text('userName', 'Name that the user signs in with, unique in the directory', { isRequired: true, isUnique: true }),
  {
    name: 'name',
    type: 'complex',
    description: 'Parts of the user’s name',
    subAttributes: [
      text('formatted', 'The whole name'),
      text('familyName', 'Last name'),
      text('givenName', 'First name'),
      text('middleName', 'Middle names'),
      text('honorificPrefix', 'Title before the name'),
      text('honorificSuffix', 'Suffix after the name'),
    ],
  },
  text('displayName', 'Name to show'),
  text('nickName', 'Casual name'),
  { name: 'profileUrl', type: 'reference', description: 'URL of a profile page', isExact: true },
  text('title', 'Job title'),
  text('userType', 'Relation to the organization, such as Employee'),
  text('preferredLanguage', 'Preferred languages'),
  text('locale', 'Locale for dates and numbers'),
  text('timezone', 'Time zone'),
  { name: 'active', type: 'boolean', description: 'Whether the user has access' },
  text('password', 'Accepted and never stored', { isIgnored: true }),
  values('emails', 'Email addresses; the primary one identifies the user in Inlay'),
  values('phoneNumbers', 'Phone numbers'),
  values('ims', 'Addresses for instant messages'),
  values('photos', 'URLs of photos'),
  values('addresses', 'Postal addresses', [
    text('formatted', 'The whole address'),
    text('streetAddress', 'Street and number'),
    text('locality', 'City'),
    text('region', 'State or region'),
    text('postalCode', 'Postal code'),
    text('country', 'Country'),
  ]),
  values('entitlements', 'What the user is entitled to'),
  values('roles', 'Roles in your directory; groups decide about roles in Inlay'),
  values('x509Certificates', 'Certificates'),
  {
    name: 'groups',
    type: 'complex',
    description: 'Groups that the user is in; change them with /Groups',
    isMultiple: true,
    isReadOnly: true,
    subAttributes: [
      text('value', 'ID of the group', { isReadOnly: true, isExact: true }),
      { name: '$ref', type: 'reference', description: 'URL of the group', isReadOnly: true, isExact: true },
      text('display', 'Name of the group', { isReadOnly: true }),
      text('type', 'Always direct', { isReadOnly: true }),
    ],
  },
]

const enterpriseAttributes: readonly Attribute[] = [
  text('employeeNumber', 'Employee number'),
  text('costCenter', 'Cost center'),
  text('organization', 'Organization'),
  text('division', 'Division'),
  text('department', 'Department'),
  {
    name: 'manager',
    type: 'complex',
    description: 'The user’s manager',
    subAttributes: [
      text('value', 'ID of the manager'),
      { name: '$ref', type: 'reference', description: 'URL of the manager', isExact: true },
      text('displayName', 'Name of the manager'),
    ],
  },
]

const groupAttributes: readonly Attribute[] = [
  text('displayName', 'Name of the group, unique in the directory', { isRequired: true, isUnique: true }),
  {
    name: 'members',
    type: 'complex',
    description: 'Users in the group',
    isMultiple: true,
    subAttributes: [
      text('value', 'ID of the user in Inlay', { isExact: true }),
      { name: '$ref', type: 'reference', description: 'URL of the user', isExact: true },
      text('display', 'Name of the user'),
      text('type', 'Always User'),
    ],
  },
]

/** A type of resource, by the last part of its URL. */
export interface ResourceType {
  name: 'User' | 'Group'
  endpoint: 'Users' | 'Groups'
  schema: string
  attributes: readonly Attribute[]
  extension?: { schema: string; attributes: readonly Attribute[] }
}

export const userType: ResourceType = {
  name: 'User',
  endpoint: 'Users',
  schema: userSchema,
  attributes: [...common, ...userAttributes],
  extension: { schema: enterpriseSchema, attributes: enterpriseAttributes },
}

export const groupType: ResourceType = {
  name: 'Group',
  endpoint: 'Groups',
  schema: groupSchema,
  attributes: [...common, ...groupAttributes],
}

export const describedSchemas = [
  { id: userSchema, name: 'User', description: 'A user in your directory', attributes: userAttributes },
  { id: groupSchema, name: 'Group', description: 'A group in your directory', attributes: groupAttributes },
  {
    id: enterpriseSchema,
    name: 'Enterprise User',
    description: 'A user’s place in their company',
    attributes: enterpriseAttributes,
  },
]

export const findAttribute = (attributes: readonly Attribute[] | undefined, name: string): Attribute | undefined =>
  attributes?.find((attribute) => attribute.name.toLowerCase() === name.toLowerCase())
