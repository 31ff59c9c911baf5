package interop

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPeersCommandLine_WritesAndReadsVariables writes a variable, reads it in the peer's formats, lists and
// changes it, and purges it.
func TestPeersCommandLine_WritesAndReadsVariables(t *testing.T) {
	t.Parallel()
	peer, _ := connectPeer(t)
	peer.checkOutput(peer.run("var", "put", "app/db", "user=me", "port=5432"), "app/db")
	peer.checkOutput(peer.run("var", "get", "-item", "user", "app/db"), "me")
	peer.checkOutput(peer.run("var", "get", "-out", "table", "app/db"), "Path", "app/db", "port", "5432")
	peer.checkOutput(peer.run("var", "list", "app"), "app/db")
	peer.checkOutput(peer.run("var", "list", "-out", "json"), `"Path": "app/db"`)
	peer.exits(1, "var", "put", "-check-index", "1", "app/db", "user=you")

	spec := filepath.Join(t.TempDir(), "spec.nv.hcl")
	text := peer.run("var", "get", "-out", "hcl", "app/db")
	err := os.WriteFile(spec, []byte(text), 0o600)
	checkNoError(t, "writing the specification", err)
	peer.run("var", "put", "-force", "@"+spec, "user=you")
	peer.checkOutput(peer.run("var", "get", "-out", "json", "app/db"), `"user": "you"`, `"port": "5432"`)
	peer.run("var", "purge", "app/db")
	peer.exits(1, "var", "get", "app/db")
}
