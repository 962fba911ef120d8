import * as access from './access/access.ts'
import * as oauthContract from './access/contract.ts'
import * as auditContract from './audit-events/contract.ts'
import * as audit from './audit-events/events.ts'
import * as connectors from './connectors/connectors.ts'
import * as connectorsContract from './connectors/contract.ts'
import * as connectorRemoval from './consent/connector-removal.ts'
import * as diagnosticsContract from './diagnostics/contract.ts'
import * as refusals from './diagnostics/refusals.ts'
import * as warnings from './diagnostics/warnings.ts'
import * as directoriesContract from './directories/contract.ts'
import * as directories from './directories/directories.ts'
import * as endUsersContract from './end-users/contract.ts'
import * as endUsers from './end-users/end-users.ts'
import { route } from './foundation/operation.ts'
import * as githubAppContract from './github-app/contract.ts'
import * as githubApp from './github-app/github-app.ts'
import * as governanceContract from './governance/contract.ts'
import * as governance from './governance/provider.ts'
import * as hubContract from './hub/contract.ts'
import * as hub from './hub/hub.ts'
import * as idpContract from './identity-provider/contract.ts'
import * as idp from './identity-provider/identity-provider.ts'
import * as organizationsContract from './organizations/contract.ts'
import * as invitations from './organizations/invitations.ts'
import * as members from './organizations/members.ts'
import * as organizations from './organizations/organizations.ts'
import * as plansContract from './plans/contract.ts'
import * as plans from './plans/plans.ts'
import * as keysContract from './publishable-keys/contract.ts'
import * as keys from './publishable-keys/keys.ts'
import * as connectorCheck from './remote-tools/connector-check.ts'
import * as sitesContract from './sites/contract.ts'
import * as sites from './sites/sites.ts'
import * as skillsContract from './skills/contract.ts'
import * as skills from './skills/skills.ts'
import * as subscriptionsContract from './subscriptions/contract.ts'
import * as subscriptions from './subscriptions/subscriptions.ts'
import * as threadsContract from './threads/contract.ts'
import * as threads from './threads/threads.ts'
import * as ticketsContract from './tickets/contract.ts'
import * as tickets from './tickets/tickets.ts'
import * as toolCallContents from './tool-calls/contents.ts'
import * as toolCallsContract from './tool-calls/contract.ts'
import * as toolCalls from './tool-calls/tool-calls.ts'
import * as usageContract from './usage/contract.ts'
import * as usage from './usage/usage.ts'
import * as usersContract from './users/contract.ts'
import * as users from './users/users.ts'

/** Every REST operation and the function that does it. A fixed path stands before one with a parameter in its place. */
export const api = [
  route(usersContract.getMe, users.getMe),
  route(oauthContract.logout, access.logout),

  route(organizationsContract.listOrganizations, organizations.listOrganizations),
  route(organizationsContract.createOrganization, organizations.createOrganization),
  route(organizationsContract.getOrganizationBySlug, organizations.getOrganizationBySlug),
  route(organizationsContract.listMembers, members.listMembers),
  route(organizationsContract.updateMember, members.updateMember),
  route(organizationsContract.removeMember, members.removeMember),
  route(organizationsContract.leaveOrganization, members.leaveOrganization),
  route(organizationsContract.listInvitations, invitations.listInvitations),
  route(organizationsContract.createInvitation, invitations.createInvitation),
  route(organizationsContract.deleteInvitation, invitations.deleteInvitation),
  route(organizationsContract.listMyInvitations, invitations.listMyInvitations),
  route(organizationsContract.acceptInvitation, invitations.acceptInvitation),
  route(organizationsContract.declineInvitation, invitations.declineInvitation),
  route(organizationsContract.getOrganization, organizations.getOrganization),

  route(keysContract.listKeys, keys.listKeys),
  route(keysContract.createKey, keys.createKey),
  route(keysContract.updateKey, keys.updateKey),
  route(keysContract.revealKey, keys.revealKey),
  route(keysContract.revokeKey, keys.revokeKey),
  route(ticketsContract.exchangeTicket, tickets.exchangeTicket),

  route(idpContract.getConfig, idp.getConfig),
  route(idpContract.updateConfig, idp.updateConfig),
  route(idpContract.testProvider, idp.testProvider),
  route(idpContract.getAllowedDomains, idp.getAllowedDomains),
  route(idpContract.setAllowedDomains, idp.setAllowedDomains),
  route(sitesContract.listSites, sites.listSites),
  route(sitesContract.deleteSite, sites.deleteSite),

  route(endUsersContract.listEndUsers, endUsers.listEndUsers),
  route(endUsersContract.getEndUser, endUsers.getEndUser),
  route(endUsersContract.eraseEndUser, endUsers.eraseEndUser),

  route(hubContract.listSources, hub.listSources),
  route(hubContract.listTools, hub.listTools),
  route(toolCallsContract.listToolCalls, toolCalls.listToolCalls),
  route(toolCallsContract.getToolCallSettings, toolCallContents.getToolCallSettings),
  route(toolCallsContract.updateToolCallSettings, toolCallContents.updateToolCallSettings),
  route(toolCallsContract.getToolCallContents, toolCalls.getToolCallContents),

  route(connectorsContract.listConnectors, connectors.listConnectors),
  route(connectorsContract.createConnector, connectors.createConnector),
  route(connectorsContract.getConnector, connectors.getConnector),
  route(connectorsContract.updateConnector, connectors.updateConnector),
  route(connectorsContract.deleteConnector, connectorRemoval.deleteConnector),
  route(connectorsContract.testConnector, connectorCheck.testConnector),

  route(skillsContract.listSkills, skills.listSkills),
  route(skillsContract.createSkill, skills.createSkill),
  route(skillsContract.getSkill, skills.getSkill),
  route(skillsContract.patchSkill, skills.patchSkill),
  route(skillsContract.archiveSkill, skills.archiveSkill),
  route(skillsContract.listSkillVersions, skills.listSkillVersions),
  route(skillsContract.getSkillVersion, skills.getSkillVersion),
  route(skillsContract.restoreSkill, skills.restoreSkill),

  route(diagnosticsContract.listRefusals, refusals.listRefusals),
  route(diagnosticsContract.listWarnings, warnings.listWarnings),

  route(governanceContract.getProvider, governance.getProvider),
  route(governanceContract.updateProvider, governance.updateProvider),
  route(governanceContract.clearProvider, governance.clearProvider),
  route(governanceContract.testInterceptor, governance.testInterceptor),

  route(githubAppContract.getApp, githubApp.getApp),
  route(githubAppContract.startManifest, githubApp.startManifest),
  route(githubAppContract.removeApp, githubApp.removeApp),

  route(usageContract.getDailyUsage, usage.getDailyUsage),
  route(usageContract.getUsageStats, usage.getUsageStats),
  route(usageContract.listSiteUsage, usage.listSiteUsage),
  route(usageContract.listEndUserUsage, usage.listEndUserUsage),
  route(usageContract.getEndUserStats, usage.getEndUserStats),
  route(usageContract.listEndUserHistory, usage.listEndUserHistory),

  route(threadsContract.listThreads, threads.listThreads),
  route(threadsContract.listEndUserThreads, threads.listEndUserThreads),
  route(threadsContract.getThreadAnalytics, threads.getThreadAnalytics),
  route(threadsContract.getThread, threads.getThread),
  route(threadsContract.updateThread, threads.updateThread),

  route(plansContract.listPlans, plans.listPlans),
  route(plansContract.getPlanInfo, plans.getPlanInfo),
  route(plansContract.checkFeature, plans.checkFeature),

  route(subscriptionsContract.getSubscription, subscriptions.getSubscription),
  route(subscriptionsContract.getSubscriptionStatus, subscriptions.getSubscriptionStatus),
  route(subscriptionsContract.getCheckoutUrl, subscriptions.getCheckoutUrl),
  route(subscriptionsContract.getPortalUrl, subscriptions.getPortalUrl),
  route(subscriptionsContract.syncSubscription, subscriptions.syncSubscription),

  route(directoriesContract.getDirectoryStatus, directories.getDirectoryStatus),
  route(directoriesContract.listDirectories, directories.listDirectories),
  route(directoriesContract.createDirectory, directories.createDirectory),
  route(directoriesContract.getDirectory, directories.getDirectory),
  route(directoriesContract.updateDirectory, directories.updateDirectory),
  route(directoriesContract.deleteDirectory, directories.deleteDirectory),
  route(directoriesContract.listDirectoryUsers, directories.listDirectoryUsers),
  route(directoriesContract.listDirectoryGroups, directories.listDirectoryGroups),

  route(auditContract.listAuditEvents, audit.listAuditEvents),
  route(auditContract.exportAuditEvents, audit.exportAuditEvents),
]
