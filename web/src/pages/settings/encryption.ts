import type { SchemaEncryption as Encryption } from "../../api/schema";

/** What the key of what is on the drives is locked with. */
export const ENCRYPTION: Record<Encryption, string> = {
  none: "not encrypted",
  file: "encrypted, locked with a key file",
  passphrase: "encrypted, locked with a passphrase",
  kmip: "encrypted, locked with a key on a KMIP server",
};
