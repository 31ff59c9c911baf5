package network

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/client/drivers/driver"
	"berth/structs"
	"berth/structs/validate/field"
)

// The files of the node that say how to resolve names. The second one has the name servers themselves where
// the first one names a server on the loopback interface of the node.
var resolverFiles = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

// maxResolver bounds the part of a file of the node that is read.
const maxResolver = 64 << 10

// settingsOf returns the settings of name resolution: each from the job, or from the network if the job has
// none, nil if neither has any.
func (n *network) settingsOf(given *structs.DNSConfig) *structs.DNSConfig {
	own := structs.DNSConfig{}
	if d := n.want.DNS; d != nil {
		own.Servers = n.expandAll(d.Servers)
		own.Searches = n.expandAll(d.Searches)
		own.Options = n.expandAll(d.Options)
	}
	if given != nil {
		own.Fill(given)
	}
	if own.IsEmpty() {
		return nil
	}
	return &own
}

func (n *network) expandAll(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, n.env.Expand(text))
	}
	return all
}

// addFiles writes the files with which the tasks resolve names.
func (n *network) addFiles(made *driver.Network) error {
	err := checkDNS(made.DNS)
	if err != nil {
		return err
	}

	err = os.MkdirAll(n.dir, 0o700)
	if err != nil {
		return err
	}

	own := structs.DNSConfig{}
	if made.DNS != nil {
		own = *made.DNS
	}

	// The node has the settings that neither the job nor the network has.
	own.Fill(nodeDNS(resolverFiles, made.Namespace != ""))
	made.Resolver = filepath.Join(n.dir, "resolv.conf")
	err = writeFile(made.Resolver, resolverText(&own))
	// Tasks in the network of the node have the hosts file of the node.
	if err != nil || made.Namespace == "" {
		return err
	}

	name := made.Hostname
	if name == "" {
		// The tasks then have the name of the node, and programs look up their own.
		name, err = os.Hostname()
		if err != nil {
			return err
		}
	}

	// Without a network there is only the loopback interface.
	made.Hosts = filepath.Join(n.dir, "hosts")
	return writeFile(made.Hosts, hostsText(cmp.Or(made.Address, "127.0.0.1"), name))
}

// checkDNS checks settings of a network, or of a job whose references are replaced: a line break in one of
// them would be another setting.
func checkDNS(d *structs.DNSConfig) error {
	if d == nil {
		return nil
	}

	isAddress := func(text string) bool {
		_, err := netip.ParseAddr(text)
		return err == nil
	}
	check := func(list string, texts []string, ok func(string) bool) error {
		for _, text := range texts {
			if !ok(text) {
				return structs.Invalidf("network: dns: %s: %q is not valid",
					list, structs.Cut(text, structs.MaxQuoted))
			}
		}
		return nil
	}

	return errors.Join(
		check("servers", d.Servers, isAddress),
		check("searches", d.Searches, field.IsSearch),
		check("options", d.Options, field.IsResolverOption))
}

// nodeDNS returns the settings of the node. Tasks with a loopback interface of their own do not reach a
// server on the node's, so a file that names only such servers does not count for them.
func nodeDNS(files []string, isolated bool) *structs.DNSConfig {
	first := &structs.DNSConfig{}
	for i, file := range files {
		d, err := readResolver(file)
		if err != nil {
			// Only machines with systemd-resolved have the second file.
			continue
		}

		reachable := slices.ContainsFunc(d.Servers, func(server string) bool {
			ip, err := netip.ParseAddr(server)
			return err == nil && !ip.IsLoopback()
		})
		if reachable || !isolated {
			return d
		}

		// Without a server that is reached, the first file still has the domains and the options.
		if i == 0 {
			first = d
		}
	}
	return first
}

// readResolver reads a file of the node. It leaves out lines that are not valid.
func readResolver(file string) (*structs.DNSConfig, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxResolver))
	if err != nil {
		return nil, err
	}

	d := &structs.DNSConfig{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}

		switch words[0] {
		case "nameserver":
			d.Servers = append(d.Servers, words[1])
		case "search", "domain": // the last line counts
			d.Searches = words[1:]
		case "options":
			// The options of several lines add up.
			d.Options = append(d.Options, words[1:]...)
		}
	}

	isNoAddress := func(text string) bool {
		_, err := netip.ParseAddr(text)
		return err != nil
	}
	d.Servers = slices.DeleteFunc(d.Servers, isNoAddress)
	return d, nil
}

// resolverText writes a resolv.conf(5).
func resolverText(d *structs.DNSConfig) string {
	var b strings.Builder
	if len(d.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(d.Searches, " "))
	}
	for _, server := range d.Servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(d.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(d.Options, " "))
	}
	return b.String()
}

// hostsText writes a hosts(5).
func hostsText(address, name string) string {
	return "127.0.0.1 localhost\n" +
		"::1 localhost ip6-localhost ip6-loopback\n" +
		"fe00::0 ip6-localnet\n" +
		"ff00::0 ip6-mcastprefix\n" +
		"ff02::1 ip6-allnodes\n" +
		"ff02::2 ip6-allrouters\n" +
		address + " " + name + "\n"
}

// writeFile writes a file that tasks may have mounted. It does not replace an equal one.
func writeFile(path, text string) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, []byte(text)) {
		return nil
	}
	// A task that has the old file mounted keeps it.
	tmp := path + ".tmp"
	err = os.WriteFile(tmp, []byte(text), 0o600)
	if err == nil {
		err = os.Chmod(tmp, 0o644) // umask does not bind chmod, and users of tasks read it
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
