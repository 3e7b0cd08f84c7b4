// Command ashlar-sra-package writes the packages of the Storage Replication Adapter from its program.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"ashlar/integrations/array"
	"ashlar/integrations/sra/image"
)

func main() {
	program := flag.String("program", "", "ashlar-sra, built with CGO_ENABLED=0 for linux/amd64")
	out := flag.String("out", ".", "folder for the packages")
	flag.Parse()
	if err := write(*program, *out); err != nil {
		fmt.Fprintln(os.Stderr, "ashlar-sra-package:", err)
		os.Exit(1)
	}
}

func write(program, out string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	name := filepath.Join(out, "ashlar-sra-"+array.Version)
	if err := image.Folder(content, name); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := image.Archive(content, array.Version, &packed); err != nil {
		return err
	}
	if err := os.WriteFile(name+".tar.gz", packed.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Println(name)
	fmt.Println(name + ".tar.gz")
	return nil
}
