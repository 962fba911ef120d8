import type * as Library from 'oidc-provider'
// @ts-expect-error Only the main entry has types, and it prints a warning on every Node version that isn't LTS yet.
import * as errorsModule from 'oidc-provider/lib/helpers/errors.js'
// @ts-expect-error As above.
import * as policyModule from 'oidc-provider/lib/helpers/interaction_policy/index.js'
// @ts-expect-error As above.
import { Provider as ProviderClass } from 'oidc-provider/lib/provider.js'

export const Provider: typeof Library.Provider = ProviderClass
export const errors: typeof Library.errors = errorsModule
export const interactionPolicy: typeof Library.interactionPolicy = policyModule
