// A real OpenID provider (the npm package oidc-provider) on this machine: `node provider.mjs CALLBACK`. Its first line of
// output is its address. Who the browser is comes as `login_hint`; no user is asked for consent.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));
const GROUPS = { ada: ["staff", "storage-admins"], olga: ["ops"], eve: ["guests"], noel: undefined };

const server = createServer();
await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "array", client_secret: "client-secret-1", redirect_uris: [process.argv[2]] }],
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: `id-of-${id}`, preferred_username: id, groups: GROUPS[id] }) }),
  features: { devInteractions: { enabled: false } },
  // With it, claims are in the ID token; without, they are asked for.
  conformIdTokenClaims: process.argv[3] !== "in-token",
  interactions: { url: (_, { uid }) => `/interaction/${uid}` },
  loadExistingGrant: async (context) => {
    const { client, session } = context.oidc;
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid profile groups");
    await grant.save();
    return grant;
  },
});
const answer = provider.callback();
server.on("request", async (request, response) => {
  if (!request.url.startsWith("/interaction/")) return answer(request, response);
  const { params } = await provider.interactionDetails(request, response);
  await provider.interactionFinished(request, response, { login: { accountId: params.login_hint } });
});
console.log(issuer);
// Only the first line is read.
console.log = console.info = console.warn = () => {};
