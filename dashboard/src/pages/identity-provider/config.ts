import { api, queryClient, read, unwrap } from '../../session/api.ts'
import { notifyError } from '../../ui/overlays/toasts.tsx'
import { t } from './texts.ts'
import type { Vendor } from './vendors.ts'

const loadConfig = (signal: AbortSignal) => api.GET('/identity-providers/config', { signal })

export const configQuery = read(['identity-provider'], loadConfig)
export type Config = NonNullable<Awaited<ReturnType<typeof loadConfig>>['data']>

/** The client with which end users confirm their browsers. It depends on the provider, so its key begins with the provider's. */
export const frameSignInQuery = read(['identity-provider', 'frame-sign-in'], (signal) =>
  api.GET('/identity-providers/frame-sign-in', { signal }),
)

export interface Settings {
  idp_type: Vendor | null
  idp_domain: string | null
  idp_issuer: string | null
  allowed_audiences: string[] | null
}

export const nothing: Settings = { idp_type: null, idp_domain: null, idp_issuer: null, allowed_audiences: null }

export async function saveConfig(settings: Settings): Promise<Config> {
  const saved = await unwrap(api.PATCH('/identity-providers/config', { body: settings }))
  await queryClient.invalidateQueries({ queryKey: ['identity-provider'] })
  return saved
}

/** Restores earlier settings. */
export const undoTo = ({ idp_type, idp_domain, idp_issuer, allowed_audiences }: Config): void =>
  void saveConfig({ idp_type, idp_domain, idp_issuer, allowed_audiences }).catch((error) =>
    notifyError(t.notUndone, error),
  )
