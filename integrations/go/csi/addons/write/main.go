// Command write makes Go packages of the protocols beside it. It compiles them by itself, since protoc is on few machines, and leaves the
// rest to the generators of the Go protobuf and gRPC projects.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	// What the protocols import is taken from here.
	_ "github.com/container-storage-interface/spec/lib/go/csi"
)

// generators are given what was compiled. The first is of the version of the library; the second is a module of its own.
var generators = []string{
	"google.golang.org/protobuf/cmd/protoc-gen-go",
	"google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
}

// importMapping is where the Go code of CSI's own protocol is.
const importMapping = "Mcsi.proto=github.com/container-storage-interface/spec/lib/go/csi"

func main() {
	if err := write(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, names []string) error {
	linked := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		found, err := protoregistry.GlobalFiles.FindFileByPath(path)
		return protocompile.SearchResult{Desc: found}, err
	})
	compiler := protocompile.Compiler{
		Resolver:       protocompile.CompositeResolver{&protocompile.SourceResolver{}, linked},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	parameter := importMapping
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: &parameter}
	seen := map[string]bool{}
	for _, file := range files {
		request.ProtoFile = add(request.ProtoFile, file, seen)
	}
	sent, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, generator := range generators {
		if err := generate(ctx, generator, sent); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	return nil
}

// add appends a file after everything that it imports, as generators want it.
func add(all []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return all
	}
	seen[file.Path()] = true
	for at := range file.Imports().Len() {
		all = add(all, file.Imports().Get(at).FileDescriptor, seen)
	}
	return append(all, protodesc.ToFileDescriptorProto(file))
}

// generate runs a generator, and writes its files under the names that generated files have in this module.
func generate(ctx context.Context, generator string, request []byte) error {
	run := exec.CommandContext(ctx, "go", "run", generator)
	run.Stdin, run.Stderr = bytes.NewReader(request), os.Stderr
	out, err := run.Output()
	if err != nil {
		return err
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out, response); err != nil {
		return err
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.GetFile() {
		folder, name := filepath.Split(file.GetName())
		folder = filepath.Base(folder)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		name = strings.TrimSuffix(name, ".pb.go") + ".gen.go"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
