// Command write writes the dashboards for logs into a folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"ashlar/integrations/vsphere/logs"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func write(words []string) error {
	if len(words) != 1 {
		return fmt.Errorf("usage: write FOLDER")
	}
	for name, make := range logs.Files {
		text, err := make()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(words[0], name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
