package e2e

import (
	"strings"
	"testing"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
	"berth/structs/cluster"
)

// keySize is the size of the keys that berth makes. A serial number in hexadecimal has the form of a smaller
// one.
const keySize = 32

// secretIn returns the kind of the secret in an argument, "" for none. The environment of a process and its
// standard input are for its user alone, and all users see its arguments.
func secretIn(arg string) string {
	_, value, _ := strings.Cut(arg, "=")
	for _, text := range []string{arg, value} {
		if _, err := pki.ParseJoinToken(text); err == nil {
			return "a join token"
		}
		if key, err := cluster.ParseGossipKey("the key", text); err == nil && len(key) == keySize {
			return "a key of the gossip"
		}
	}
	return ""
}

// checkArguments fails the test for each secret in the arguments of a program.
func (a *agent) checkArguments(args []string) {
	a.t.Helper()
	for i, arg := range args {
		if kind := secretIn(arg); kind != "" {
			a.t.Errorf("argument %d of %d is %s: give it by the standard input", i+1, len(args), kind)
		}
	}
}

func TestArguments_AreSearchedForSecrets(t *testing.T) {
	t.Parallel()
	token := pki.NewJoinToken("global", pki.RoleNode, pkitest.New(t, "global").Cert).Text()
	key := cluster.NewGossipKey()
	for arg, want := range map[string]string{
		token:                              "a join token",
		"-join=" + token:                   "a join token",
		key:                                "a key of the gossip",
		"-encrypt=" + key:                  "a key of the gossip",
		"-":                                "",
		"tls":                              "",
		"name=value":                       "",
		"93658fae7a84ebe40cc549cfe19a674f": "",
	} {
		if got := secretIn(arg); got != want {
			t.Errorf("%.12s: got %q, want %q", arg, got, want)
		}
	}
}
