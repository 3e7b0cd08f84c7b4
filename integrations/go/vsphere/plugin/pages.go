package plugin

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed all:pages
var embedded embed.FS

func builtIn() fs.FS {
	made, err := fs.Sub(embedded, "pages")
	if err != nil {
		panic(err)
	}
	return made
}

// document is the one page; which view it shows is in its address.
const document = "plugin.html"

// policy of the pages: they load nothing but what this server and the vSphere Client, which has the same origin, serve.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{{nonce}}'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"

const nonceBytes = 16

// page serves the files of the pages.
func (s *Server) page(out http.ResponseWriter, in *http.Request) {
	name := strings.TrimPrefix(path.Clean(in.URL.Path), "/")
	if name == "" {
		name = document
	}
	content, err := fs.ReadFile(s.pages, name)
	header := out.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	switch {
	case err != nil && name == document:
		http.Error(out, "this program was built without its pages: `cargo xtask web` before `go build` makes them", http.StatusNotImplemented)
	case err != nil || strings.HasPrefix(path.Base(name), "."):
		http.NotFound(out, in)
	case name == document:
		nonce := make([]byte, nonceBytes)
		_, _ = rand.Read(nonce)
		text := base64.StdEncoding.EncodeToString(nonce)
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", strings.ReplaceAll(policy, "{{nonce}}", text))
		header.Set("Cache-Control", "no-store")
		_, _ = out.Write(bytes.ReplaceAll(content, []byte("{{nonce}}"), []byte(text)))
	default:
		if strings.HasPrefix(name, "assets/") {
			// Their names change with their content.
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeFileFS(out, in, s.pages, name)
	}
}

// iconPixels is the edge of an icon as the vSphere Client cuts it from the sheet.
const iconPixels = 32

// sheet is the sheet of icons, with one: three courses of stones, as in the array's own interface.
var sheet = func() []byte {
	picture := image.NewNRGBA(image.Rect(0, 0, iconPixels, iconPixels))
	stone := func(x, y, width int, ink color.NRGBA) {
		draw.Draw(picture, image.Rect(x, y, x+width, y+7), image.NewUniform(ink), image.Point{}, draw.Src)
	}
	dark, light := color.NRGBA{0x1d, 0x63, 0x84, 0xff}, color.NRGBA{0x4e, 0x98, 0xb8, 0xff}
	stone(3, 4, 12, light)
	stone(17, 4, 12, dark)
	stone(3, 13, 7, dark)
	stone(12, 13, 17, light)
	stone(3, 22, 17, dark)
	stone(22, 22, 7, light)
	var made bytes.Buffer
	if err := png.Encode(&made, picture); err != nil {
		panic(err)
	}
	return made.Bytes()
}()

func icons(out http.ResponseWriter, _ *http.Request) {
	out.Header().Set("Content-Type", "image/png")
	out.Header().Set("Cache-Control", "public, max-age=86400")
	_, _ = out.Write(sheet)
}
