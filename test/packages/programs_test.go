package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// testTools are the packages whose programs the test itself calls on the machine.
const testTools = "iproute2, man-db, passwd, procps, rpm"

// programDirs are the directories of programs. Those of /bin and /sbin are links to them.
var programDirs = []string{"/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"}

// removePrograms leaves a root the programs that a machine has after the installation of a package of Debian:
// those of the essential packages, of systemd, of what the package depends on and recommends, and of the
// test. This machine has many others, and the agent may not need one of them. The libraries stay: berth uses
// none.
func removePrograms(root, deb string) error {
	wanted, err := exec.Command("dpkg-deb", "--show", "--showformat=${Depends}, ${Recommends}", deb).Output()
	if err != nil {
		return fmt.Errorf("reading %s: %w", deb, err)
	}
	kept, err := closure("systemd, " + testTools + ", " + string(wanted))
	if err != nil {
		return err
	}
	list, err := exec.Command("dpkg-query", append([]string{"-L"}, kept...)...).Output()
	if err != nil {
		return fmt.Errorf("listing the files of %q: %w", kept, err)
	}
	keep := map[string]bool{}
	for path := range strings.Lines(string(list)) {
		keep[belowUsr(strings.TrimSpace(path))] = true
	}

	for _, dir := range programDirs {
		programs, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, p := range programs {
			path := filepath.Join(dir, p.Name())
			target, _ := filepath.EvalSymlinks(path) // "" if it leads nowhere
			if keep[path] || keep[belowUsr(target)] {
				continue
			}
			err = os.RemoveAll(root + path)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// belowUsr returns the path of a program where /bin and /sbin are links.
func belowUsr(path string) string {
	if strings.HasPrefix(path, "/bin/") || strings.HasPrefix(path, "/sbin/") {
		return "/usr" + path
	}
	return path
}

// nameOfPackage finds the names in a list of packages with alternatives, versions and architectures.
var nameOfPackage = regexp.MustCompile(`(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)`)

// closure returns the essential packages of this machine, those of a list, and all that these depend on.
func closure(list string) (names []string, err error) {
	const format = "${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
	all, err := exec.Command("dpkg-query", "-W", "-f", format).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of this machine: %w", err)
	}
	needs := map[string]string{}
	providers := map[string][]string{}
	for line := range strings.Lines(string(all)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		needs[fields[0]] = fields[2]
		if fields[1] == "yes" {
			list += ", " + fields[0]
		}
		for _, m := range nameOfPackage.FindAllStringSubmatch(fields[3], -1) {
			providers[m[1]] = append(providers[m[1]], fields[0])
		}
	}

	lists := []string{list}
	for len(lists) > 0 {
		list, lists = lists[0], lists[1:]
		for _, m := range nameOfPackage.FindAllStringSubmatch(list, -1) {
			for _, name := range append(providers[m[1]], m[1]) {
				below, installed := needs[name]
				if installed && !slices.Contains(names, name) {
					names = append(names, name)
					lists = append(lists, below)
				}
			}
		}
	}
	return names, nil
}
