// Package static has the files of the page: its styles, its scripts and its icon. It is apart: the handler
// serves the files, and package pages names them.
//
// These are of others, as their packages on npm have them:
//
//   - xterm.min.js and xterm.css: lib/xterm.js and css/xterm.css of @xterm/xterm 6.0.0
//   - xterm-fit.min.js: lib/addon-fit.js of @xterm/addon-fit 0.11.0
//
// terminal.js depends on how xterm.js makes its styles, and on a private function of it. The test in test/ui
// finds what a newer one does otherwise.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
	"sync"
)

// Path is the path of the files. They never change within a version.
const Path = "/ui/static/"

//go:embed *.css *.js *.svg *.txt
var files embed.FS

// digests returns the digest of each file, by its name. Commands that serve no page do not wait for it.
var digests = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // the binary lacks the files
	}
	for _, f := range entries {
		b, err := files.ReadFile(f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(b)
		all[f.Name()] = hex.EncodeToString(sum[:8])
	}
	return all
})

// URL returns the address of a file, which is another one when the file changes.
func URL(name string) string { return Path + name + "?v=" + digests()[name] }

// Handler serves the files. A browser keeps a file that it names by its digest.
func Handler() http.Handler {
	served := http.StripPrefix(Path, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest := digests()[strings.TrimPrefix(r.URL.Path, Path)]
		switch {
		case digest == "":
			http.NotFound(w, r) // also for the list of the files
			return
		case r.URL.Query().Get("v") == digest:
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		served.ServeHTTP(w, r)
	})
}
