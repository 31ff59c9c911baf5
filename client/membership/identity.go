package membership

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/client/store"
	"berth/internal/files"
	"berth/structs"
)

// Identity identifies a node: its ID to all, its secret only to the servers. Both are made once and outlive
// the agent. The node's records have a copy.
type Identity struct{ NodeID, SecretID string }

var identityTable = store.NewTable[Identity]("identity")

// WantedIdentity is what others say about the ID of a node. "" says nothing.
type WantedIdentity struct {
	Configured string // it wins over the one on disk
	Certified  string // by the TLS certificate, with which the agent can be this node alone
}

// The files of an identity.
const (
	nodeFile   = "node-id"
	secretFile = "secret-id"
)

// LoadIdentity reads the identity in dir or makes it, and keeps a copy in the node's records. A changed file
// is an error: another ID or secret would be another node, and the servers would take this node's volumes
// for lost. So is the certificate of another node.
func LoadIdentity(db *store.DB, dir string, wanted WantedIdentity) (id Identity, err error) {
	known, err := identityTable.Get(db, "node")
	if err != nil {
		return id, err
	}

	if known == nil {
		known = &Identity{}
	}

	err = wanted.check(dir, known.NodeID)
	if err != nil {
		return id, err
	}

	configured := cmp.Or(wanted.Configured, wanted.Certified)
	id.NodeID, err = loadPart(filepath.Join(dir, nodeFile), known.NodeID, configured)
	if err != nil {
		return id, err
	}

	id.SecretID, err = loadPart(filepath.Join(dir, secretFile), known.SecretID, "")
	if err != nil {
		return id, err
	}

	if *known == id {
		return id, nil // a full disk does not keep the agent from starting
	}

	// A crash before this write leaves files without a copy. The next start writes the copy.
	return id, identityTable.Put(db, "node", &id)
}

// check returns an error if the certificate does not belong to the configured node or to the one in dir.
func (w WantedIdentity) check(dir, known string) error {
	if w.Certified == "" {
		return nil
	}

	b, err := os.ReadFile(filepath.Join(dir, nodeFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the node's identity: %w", err)
	}
	// loadPart decides in this order. The certificate alone names a node that has no ID yet.
	id := cmp.Or(w.Configured, strings.TrimSpace(string(b)), known, w.Certified)
	if id != w.Certified {
		return structs.Preconditionf("tls: cert_file is the certificate of node %s, and this is node %s; "+
			"make its certificate with `berth tls cert create -client -id %s`", w.Certified, id, id)
	}
	return nil
}

// loadPart reads one part of the identity, or makes it. known is its copy, "" if there is none.
func loadPart(path, known, configured string) (string, error) {
	b, err := os.ReadFile(path)
	have := strings.TrimSpace(string(b))
	missing := errors.Is(err, os.ErrNotExist)
	want := cmp.Or(configured, known)
	switch {
	case err != nil && !missing:
		return "", fmt.Errorf("reading the node's identity: %w", err)
	// The file agrees with the setting, or with the copy if there is no setting, or is all that there is.
	case have != "" && cmp.Or(want, have) == have:
		return have, nil
	// The file names another node than the records, and no setting decides between them.
	case !missing && configured == "" && known != "":
		return "", structs.Internalf("%s: the node's identity is not the one of its records. Remove "+
			"the file and start the agent again: it writes the file again from its records "+
			"(see Damaged files in docs/operations/troubleshoot.md)", path)
	case !missing && configured == "":
		return "", structs.Internalf("%s: the node's identity is empty. Put it back, or remove the file "+
			"and become another node (see Damaged files in docs/operations/troubleshoot.md)", path)
	}

	// A missing file gets the setting or the copy. A node that has neither is a new one.
	want = cmp.Or(want, structs.NewID())
	if err := files.WriteDurable(path, []byte(want+"\n")); err != nil {
		return "", fmt.Errorf("writing the node's identity: %w", err)
	}

	return want, nil
}
