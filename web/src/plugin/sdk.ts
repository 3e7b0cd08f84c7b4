/** The part of the vSphere Client's `htmlClientSdk` that this plug-in uses. */

export type Theme = { name: string };
type Sdk = {
  initialize: (done: () => void) => void;
  getProxiedPluginServerOrigin?: () => string;
  app: {
    getSessionInfo: (done: (info: { sessionToken: string }) => void) => void;
    getContextObjects: () => { id: string }[];
    getTheme?: () => Theme;
    navigateTo: (to: { targetViewId: string; objectId: string }) => void;
  };
  modal: { close: (data?: unknown) => void };
  event: { onGlobalRefresh?: (run: () => void) => void; onThemeChanged?: (run: (theme: Theme) => void) => void };
};

declare global {
  var htmlClientSdk: Sdk | undefined;
}

/** An object of the inventory, and its vCenter. */
export type Subject = { type: string; id: string; vcenter: string };

/** Reads `urn:vmomi:Datastore:datastore-12:` and the vCenter. */
export function subjectOf(urn: string | undefined): Subject | undefined {
  const [, type, id, vcenter] = /^urn:vmomi:([^:]+):([^:]+):([^:]+)$/.exec(urn ?? "") ?? [];
  return type && id && vcenter ? { type, id, vcenter } : undefined;
}

export const urnOf = ({ type, id, vcenter }: Subject): string => `urn:vmomi:${type}:${id}:${vcenter}`;

/** The client, once it is ready. */
export async function client(): Promise<Sdk> {
  const sdk = globalThis.htmlClientSdk;
  if (!sdk) throw new Error("This page belongs to the vSphere Client: open it there.");
  await new Promise<void>((resolve) => sdk.initialize(resolve));
  return sdk;
}

export type { Sdk };

/** The present token of the user's session. */
export const tokenOf = (sdk: Sdk): Promise<string> => new Promise((resolve) => sdk.app.getSessionInfo(({ sessionToken }) => resolve(sessionToken)));

/** The URL of the plug-in's server through vCenter's proxy. */
export function serverOf(sdk: Sdk): string {
  return (sdk.getProxiedPluginServerOrigin?.() ?? new URL(".", location.href).href).replace(/\/$/, "");
}
