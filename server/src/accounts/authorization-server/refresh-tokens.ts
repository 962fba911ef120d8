import { createHmac } from 'node:crypto'
import type { Provider as ProviderType } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import { Provider } from './library.ts'

/**
 * Derives each refresh token from the one that it replaces, so that all uses of a token that may be reused return the same
 * successor, on every node, without storing it in readable form.
 */
export function deriveSuccessors(provider: ProviderType, { secrets }: Pick<Service, 'secrets'>): void {
  const [derived] = secrets.derive('refresh tokens')
  const { prototype } = provider.RefreshToken as unknown as { prototype: { generateTokenId(): string } }
  const generate = prototype.generateTokenId
  prototype.generateTokenId = function () {
    const replaced = Provider.ctx?.oidc.entities.RotatedRefreshToken
    if (!derived || !replaced) return generate.call(this)
    return createHmac('sha256', derived.key).update(replaced.jti).digest('base64url')
  }
}
