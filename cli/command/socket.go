package command

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"berth/internal/opsocket"
	"berth/structs"
)

// addressOf returns the address of the agent to call. Without an option and the environment it is the
// operator socket of this machine if its agent has a usual place and this user may open it, else "",
// the default.
func addressOf(c *Call) string {
	address := cmp.Or(c.String("address"), os.Getenv("BERTH_ADDR"))
	if address != "" {
		return address
	}
	socket := opsocket.Served(opsocket.Default, opsocket.OfServer)
	if socket == "" {
		return ""
	}
	return "unix://" + socket
}

// addSocketStep adds the command to run next to the error of a request that only an operator socket takes.
// path is the command as in usage.
func addSocketStep(c *Call, path string, err error) error {
	socket := structs.SocketOf(err)
	if socket == "" {
		return err
	}
	return fmt.Errorf("%w\nRun there: %s", err, commandOver(c, "unix://"+socket, path))
}

// commandOver returns the command line of this call as root over the socket of an address, without TLS. It
// names the namespace and the region of the environment, because sudo drops them.
func commandOver(c *Call, address, path string) string {
	words := []string{"sudo", path, "-address", structs.ShellWord(address)}
	add := func(name, value string) {
		words = append(words, "-"+name, structs.ShellWord(value))
	}
	for _, f := range c.Command.ownFlags() {
		for _, value := range c.values[f.Name] {
			switch {
			case value == "true" && f.Kind == Bool:
				words = append(words, "-"+f.Name)
			case f.Kind == Bool: // false is the default
			default:
				add(f.Name, value)
			}
		}
	}

	if ns := c.Namespace(); ns != "" {
		add("namespace", ns)
	}
	if region := c.region(); region != "" {
		add("region", region)
	}

	if slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		words = append(words, "--")
	}
	for _, arg := range c.Args {
		words = append(words, structs.ShellWord(arg))
	}
	return strings.Join(words, " ")
}
