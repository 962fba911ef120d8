import { useQuery } from '@tanstack/react-query'
import { useOrganization } from '../../session/me.ts'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { PageHeader } from '../../ui/display/layout.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { OwnApp } from './own-app.tsx'
import { PlatformApp } from './platform-app.tsx'
import { githubAppQuery } from './queries.ts'
import { Registration } from './registration.tsx'
import { RepositorySection } from './repository.tsx'
import { t } from './texts.ts'

export default function CodeHost() {
  const { isAdmin } = useOrganization()
  const app = useQuery({ ...githubAppQuery, enabled: isAdmin })
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? (
        <Loaded query={app}>
          {(data) => (
            <div className="grid gap-3">
              {(data.configured || data.platform_app) && <RepositorySection app={data} />}
              {data.configured && <OwnApp app={data} />}
              {!data.configured && data.platform_app?.installation && <PlatformApp app={data.platform_app} />}
              {!data.configured && <Registration isAlternative={data.platform_app !== null} />}
            </div>
          )}
        </Loaded>
      ) : (
        <AdminsOnly />
      )}
    </>
  )
}
