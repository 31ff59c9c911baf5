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
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/structs"
)

// identity identifies a node: its ID to all, its secret only to the servers. Both are made once and outlive
// the agent. The node's records have a copy.
type identity struct{ NodeID, SecretID string }

var identityTable = store.NewTable[identity]("identity")

// certifiedID returns the configured ID of the node, or the one in its certificate: the servers let the
// certificate act for that node alone. A node in dir with another ID is an error.
func certifiedID(keys *peertls.Keys, dir, configured string) (string, error) {
	if keys == nil || keys.Identity().Role != pki.RoleNode {
		return configured, nil
	}

	certified := keys.Identity().ID
	b, err := os.ReadFile(filepath.Join(dir, nodeIDFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the node's identity: %w", err)
	}

	known := cmp.Or(configured, strings.TrimSpace(string(b)))
	if known != "" && known != certified {
		return "", structs.Preconditionf("tls: cert_file is the certificate of the node %s, and this node is %s; "+
			"make its certificate with `berth tls cert create -client -id %s`", certified, known, known)
	}
	return certified, nil
}

// nodeIDFile has the ID of the node.
const nodeIDFile = "node-id"

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

	nodeFile := filepath.Join(dir, nodeIDFile)
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
