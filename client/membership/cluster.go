package membership

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/files"
	"berth/structs"
)

// ClusterFile is the file with the ID of the cluster to which a node belongs. A node shows the ID when it
// registers. Servers of another cluster, for example of a new and empty one at the same addresses, then
// reject the node: they would end all tasks that they do not know.
//
// The file is the only copy, so that an operator can remove it: the node then joins the next cluster.
const ClusterFile = "cluster-id"

// ReadCluster returns the ID of the cluster, "" for a node that has not joined one.
func ReadCluster(dir string) (string, error) {
	path := filepath.Join(dir, ClusterFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the ID of the cluster: %w", err)
	}

	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", structs.Internalf("%s: the ID of the cluster is empty. Put it back, or remove the file "+
			"to join the next cluster: its servers end what they do not know", path)
	}
	return id, nil
}

// WriteCluster records the ID of the cluster that has accepted the node. "" changes nothing: servers of an
// earlier version do not tell it.
func WriteCluster(dir, id string) error {
	known, err := ReadCluster(dir)
	if err == nil && (id == "" || id == known) {
		return nil
	}

	if err == nil {
		err = files.WriteDurable(filepath.Join(dir, ClusterFile), []byte(id+"\n"))
	}

	if err != nil {
		return fmt.Errorf("writing the ID of the cluster: %w", err)
	}
	return nil
}
