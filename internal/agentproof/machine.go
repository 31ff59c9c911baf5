package agentproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// The files of Linux that identify a machine, below the root directory.
const (
	productFile = "sys/class/dmi/id/product_uuid" // only root reads it
	machineFile = "etc/machine-id"
	// handedFile is a copy of productFile for an agent that is not root: see berth-server.service.
	handedFile = "run/berth/product_uuid"
)

// uuidLength bounds what is read of a file with a UUID.
const uuidLength = 64

// productForm and machineForm are the forms of the two in lower case.
var (
	productForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	machineForm = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// fillers are product UUIDs that vendors of boards and firmware have given to many machines.
var fillers = []string{
	"03000200-0400-0500-0006-000700080009",
	"00020003-0004-0005-0006-000700080009",
	"12345678-1234-5678-90ab-cddeefaabbcc",
	"12345678-1234-1234-1234-123456789abc",
	"01234567-8910-1112-1314-151617181920",
	"4c4c4544-0000-2010-8020-80c04f202020",
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
}

// containerMarks are files that engines put into containers. The DMI of a container is its host's.
var containerMarks = []string{".dockerenv", "run/.containerenv", "run/systemd/container"}

// ReadMachine returns the identity of this machine, from the files below a root directory: digests of the
// product UUID and of the machine-id, each where it is known. "" if neither is. A network card is no part of
// it, because cards move and virtual ones are made anew.
func ReadMachine(root string) structs.MachineID { return readMachine(root, isInMemory) }

func readMachine(root string, inMemory func(*os.File) bool) structs.MachineID {
	var parts []string
	product := firstLine(root, productFile)
	if product == "" {
		product = handed(root, inMemory)
	}
	if productForm.MatchString(product) && !isFiller(product) && !inContainer(root) {
		parts = append(parts, "product:"+digest(product))
	}
	machine := firstLine(root, machineFile)
	// A container may have the UUID of its host as its machine-id.
	if (machineForm.MatchString(machine) || productForm.MatchString(machine)) && !isFiller(machine) {
		parts = append(parts, "machine:"+digest(machine))
	}
	return structs.MachineID(strings.Join(parts, " "))
}

func firstLine(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return cutLine(b)
}

func cutLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.ToLower(strings.TrimSpace(line))
}

// handed returns the product UUID that root has handed to the user of the agent, "" for none. That user could
// change the file, as it could change the record of its machine. A file that outlives a reboot does not
// count: a copy of the disk would bring it along.
func handed(root string, inMemory func(*os.File) bool) string {
	f, err := os.Open(filepath.Join(root, handedFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if !inMemory(f) {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, uuidLength))
	if err != nil {
		return ""
	}
	return cutLine(b)
}

// isInMemory reports whether a reboot removes a file.
func isInMemory(f *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &st)
	return err == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// isFiller reports whether an ID is none: a known UUID of many machines, or one digit repeated.
func isFiller(id string) bool {
	digits := strings.ReplaceAll(id, "-", "")
	return strings.Trim(digits, digits[:1]) == "" || slices.Contains(fillers, id)
}

func inContainer(root string) bool {
	for _, name := range containerMarks {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			return true
		}
	}
	environ, err := os.ReadFile(filepath.Join(root, "proc/1/environ"))
	return err == nil && (strings.HasPrefix(string(environ), "container=") ||
		strings.Contains(string(environ), "\x00container="))
}

// digest hides an ID of the machine: man 5 machine-id asks not to show it in a network. 64 bits tell all
// machines of a cluster apart.
func digest(id string) string {
	mac := hmac.New(sha256.New, []byte("berth machine"))
	mac.Write([]byte(id)) // it returns no error
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
