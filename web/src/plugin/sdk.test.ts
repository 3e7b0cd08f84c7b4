import { expect, it } from "vitest";
import { serverOf, subjectOf, urnOf, type Sdk } from "./sdk";

it("reads objects as the client names them, and nothing else", () => {
  const urn = "urn:vmomi:Datastore:datastore-12:8a7f-11";
  expect(subjectOf(urn)).toEqual({ type: "Datastore", id: "datastore-12", vcenter: "8a7f-11" });
  expect(urnOf({ type: "Datastore", id: "datastore-12", vcenter: "8a7f-11" })).toBe(urn);
  for (const wrong of [undefined, "", "datastore-12", "urn:vmomi:Datastore:datastore-12", `${urn}:more`]) expect(subjectOf(wrong)).toBeUndefined();
});

it("finds its server by the client, or beside the page in clients that do not say", () => {
  const sdk = (origin?: string) => ({ ...(origin !== undefined && { getProxiedPluginServerOrigin: () => origin }) }) as unknown as Sdk;
  expect(serverOf(sdk("https://vc/plugins/ashlar/"))).toBe("https://vc/plugins/ashlar");
  expect(serverOf(sdk())).toBe(new URL(".", location.href).href.replace(/\/$/, ""));
});
