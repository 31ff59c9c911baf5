package client

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/client/store"
	"berth/internal/durable"
	"berth/structs"
)

// identity identifies a node: its ID to all, its secret only to the servers. Both are made once and outlive
// the agent. The node's records have a copy.
type identity struct{ NodeID, SecretID string }

var identityTable = store.NewTable[identity]("identity")

// loadIdentity reads the identity in dir or makes it, and keeps a copy in the node's records. A configured
// node ID wins over the one on disk. A changed file is an error: another ID or secret would be another node,
// and the servers would take this node's volumes for lost.
func loadIdentity(db *store.DB, dir, configured string) (id identity, err error) {
	known, err := identityTable.Get(db, "node")
	if err != nil {
		return id, err
	}

	if known == nil {
		known = &identity{}
	}

	nodeFile := filepath.Join(dir, "node-id")
	id.NodeID, err = loadIdentityPart(nodeFile, known.NodeID, configured)
	if err != nil {
		return id, err
	}

	secretFile := filepath.Join(dir, "secret-id")
	id.SecretID, err = loadIdentityPart(secretFile, known.SecretID, "")
	if err != nil {
		return id, err
	}

	if *known == id {
		return id, nil // a full disk does not keep the agent from starting
	}

	return id, identityTable.Put(db, "node", &id)
}

// loadIdentityPart reads one part of the identity, or makes it. known is its copy, "" if there is none.
func loadIdentityPart(path, known, configured string) (string, error) {
	b, err := os.ReadFile(path)
	have := strings.TrimSpace(string(b))
	missing := errors.Is(err, os.ErrNotExist)
	want := cmp.Or(configured, known)
	switch {
	case err != nil && !missing:
		return "", fmt.Errorf("reading the node's identity: %w", err)
	case have != "" && cmp.Or(want, have) == have:
		return have, nil
	case !missing && configured == "" && known != "":
		return "", structs.Internalf("%s: the node's identity is not the one of its records. Remove "+
			"the file and start the agent again: it writes the file again from its records "+
			"(see Damaged files in docs/operations/troubleshoot.md)", path)
	case !missing && configured == "":
		return "", structs.Internalf("%s: the node's identity is empty. Put it back, or remove the file "+
			"and become another node (see Damaged files in docs/operations/troubleshoot.md)", path)
	}

	want = cmp.Or(want, structs.NewID())
	if err := durable.WriteFile(path, []byte(want+"\n")); err != nil {
		return "", fmt.Errorf("writing the node's identity: %w", err)
	}

	return want, nil
}
