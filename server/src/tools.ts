import * as diagnostics from './diagnostics/tools.ts'
import * as governance from './governance/tools.ts'
import * as hub from './hub/tools.ts'
import * as idp from './identity-provider/tools.ts'
import * as organizations from './organizations/tools.ts'
import * as plans from './plans/tools.ts'
import * as subscriptions from './subscriptions/tools.ts'
import * as users from './users/tools.ts'

/** Every MCP tool, in the order in which clients are told. */
export const tools = [
  users.getProfile,
  organizations.listOrganizations,
  organizations.getOrganization,
  organizations.listMembers,
  idp.manageIdpConfig,
  idp.testIdpConnection,
  governance.manageGovernanceProvider,
  governance.testGovernanceProvider,
  plans.listPlans,
  plans.getPlanInfo,
  plans.checkFeature,
  subscriptions.getSubscription,
  subscriptions.getBillingUrl,
  subscriptions.syncSubscription,
  hub.listTools,
  hub.listSources,
  hub.callTool,
  diagnostics.echo,
  diagnostics.verifyApiAccess,
]
