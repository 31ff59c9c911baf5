package raftfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"berth/internal/files"
	"berth/structs"
)

// machineName is the file with the identity of the machine on which this server last had the right to vote.
const machineName = "server-machine"

// Machine returns the machine on which the server of a data directory last had the right to vote, "" if it
// has had none yet or the machine is not known.
func Machine(dataDir string) (structs.MachineID, error) {
	path := filepath.Join(dataDir, machineName)
	b, err := readLimited(path, 4096)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the machine of the server: %w", err)
	}
	return structs.MachineID(strings.TrimSpace(string(b))), nil
}

// KeepMachine records the machine on which the server has the right to vote from now on. It keeps a part that
// the same machine has shown before.
func KeepMachine(dataDir string, m structs.MachineID) error {
	known, err := Machine(dataDir)
	m = known.Update(m)
	if err == nil && known == m {
		return nil
	}
	err = files.WriteDurable(filepath.Join(dataDir, machineName), []byte(string(m)+"\n"))
	if err != nil {
		return fmt.Errorf("keeping the machine of the server: %w", err)
	}
	return nil
}
