/** The API reference, from the description that this array serves. The page fetches nothing from other servers. */
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import { session } from "../../api/session";
import { Page } from "../../parts/page";
import "./reference.css";

export function ReferencePage() {
  const place = useRef<HTMLDivElement>(null);
  const dark = useComputedColorScheme("light") === "dark";
  useEffect(() => {
    SwaggerUI({
      domNode: place.current,
      url: "/api/v1/openapi.json",
      // The validator would send the description to a service on the Internet.
      validatorUrl: null,
      docExpansion: "none",
      filter: true,
      defaultModelsExpandDepth: 0,
      // The array is in production: requests from this page change nothing.
      supportedSubmitMethods: ["get"],
      requestInterceptor: (request) => {
        const token = session.token();
        if (token) request.headers["authorization"] = `Bearer ${token}`;
        return request;
      },
    });
  }, []);
  useEffect(() => {
    const root = place.current;
    if (!root) return;
    // Examples scroll, so the keyboard must reach them.
    const observer = new MutationObserver(() => root.querySelectorAll("pre.microlight:not([tabindex])").forEach((text) => text.setAttribute("tabindex", "0")));
    observer.observe(root, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    document.documentElement.classList.toggle("dark-mode", dark);
    return () => document.documentElement.classList.remove("dark-mode");
  }, [dark]);
  return (
    <Page title="API reference">
      <div ref={place} className="api-reference" />
    </Page>
  );
}
