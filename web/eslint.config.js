import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "node_modules", "src/api/schema.d.ts", "test-results"] },
  js.configs.recommended,
  ...ts.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true } },
    plugins: { "react-hooks": hooks },
    rules: {
      ...hooks.configs.recommended.rules,
      "max-lines": ["error", 500],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
    },
  },
  // Playwright's fixtures call theirs "use", too.
  { files: ["e2e/**"], rules: { "react-hooks/rules-of-hooks": "off" } },
  { files: ["**/*.js"], ...ts.configs.disableTypeChecked },
  { files: ["public/*.js", "plugin/*.js"], languageOptions: { sourceType: "script", globals: { window: "readonly", document: "readonly", localStorage: "readonly", matchMedia: "readonly", self: "readonly", caches: "readonly", fetch: "readonly", setTimeout: "readonly", URL: "readonly" } } },
);
