package admission

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"berth/structs"
)

// The files of Linux that identify a machine, below the root directory.
const (
	productFile = "sys/class/dmi/id/product_uuid" // only root reads it
	machineFile = "etc/machine-id"
)

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

// containerMarks are files that engines put into containers. The DMI of a container is that of its host.
var containerMarks = []string{".dockerenv", "run/.containerenv", "run/systemd/container"}

// ReadMachine returns the identity of this machine, from the files below a root directory: digests of the
// product UUID and of the machine-id, each where it is known. "" if neither is. A network card is no part of
// it, because cards move and virtual ones are made anew.
func ReadMachine(root string) structs.MachineID {
	var parts []string
	product := firstLine(root, productFile)
	if productForm.MatchString(product) && !isFiller(product) && !inContainer(root) {
		parts = append(parts, "product:"+digest(product))
	}
	machine := firstLine(root, machineFile)
	if machineForm.MatchString(machine) && strings.Trim(machine, machine[:1]) != "" {
		parts = append(parts, "machine:"+digest(machine))
	}
	return structs.MachineID(strings.Join(parts, " "))
}

func firstLine(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.ToLower(strings.TrimSpace(line))
}

// isFiller reports whether a product UUID is none: a known one, or one digit repeated.
func isFiller(product string) bool {
	digits := strings.ReplaceAll(product, "-", "")
	return strings.Trim(digits, digits[:1]) == "" || slices.Contains(fillers, product)
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
