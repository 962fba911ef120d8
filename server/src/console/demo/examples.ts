import { existsSync } from 'node:fs'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { demoUsers } from '../../accounts/users/demo-users.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { listen } from '../../kernel/net/listen.ts'
import { findOrganization } from './demo.ts'

interface Server {
  service: Service
  url: string
  port: number
}

/**
 * Runs the demo organization's shop with the widget in this process. It costs little until it is visited. Returns
 * undefined if the server was installed without the examples.
 */
export async function startDemoExamples({ service, url, port }: Server): Promise<string | undefined> {
  if (!existsSync(new URL('../../../../examples/examples.ts', import.meta.url))) return undefined
  const { startExamples } = await import('../../../../examples/examples.ts')
  const token = async () => {
    const admin = await findUserByEmail(service, demoUsers[0].email)
    if (!admin) throw new Error('The demo organization’s administrator no longer exists')
    return issueAccessToken(service, {
      userId: admin.id,
      organizationId: await findOrganization(service, admin.id, 'demo'),
      audience: [resources(url).api],
      lifetimeSeconds: 60,
    })
  }
  const { shopUrl } = await startExamples({
    inlayUrl: url,
    token,
    port: service.config.port && port + 1,
    listen: (server, wanted) => listen(server, wanted, service.config.listen),
  })
  return shopUrl
}
