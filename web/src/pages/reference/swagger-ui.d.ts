declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  type Request = { url: string; headers: Record<string, string> };
  type Options = {
    domNode: HTMLElement | null;
    url: string;
    validatorUrl: string | null;
    docExpansion: "list" | "full" | "none";
    filter: boolean;
    defaultModelsExpandDepth: number;
    supportedSubmitMethods: string[];
    requestInterceptor: (request: Request) => Request;
  };
  export default function SwaggerUI(options: Options): unknown;
}
