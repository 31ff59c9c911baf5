package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// groups are the groups of the navigation in their order, with the first words of the paths of their pages. A
// page is in the group with the longest of them.
var groups = []struct {
	name     string
	prefixes []string
}{
	{"Start", []string{
		"index.md", "contents.md", "faq.md", "tutorials/", "coming-from-", "page.md", "events.md",
	}},
	{"Storage", []string{"storage/"}},
	{"CSI drivers", []string{"vendors/"}},
	{"Jobs and services", []string{"jobs.md", "services.md", "consul.md", "mesh.md"}},
	{"Operate", []string{"operations"}},
	{"Why something waits", []string{"why/"}},
	{"Reference", []string{"reference/", "glossary.md", "status.md"}},
	{"How it is built", []string{"architecture.md", "map.md", "goroutines.md", "reliability.md", "performance"}},
	{"Decisions", []string{"files/docs/adr/"}}, // one page lists them
	{"The project", []string{"project/"}},
}

// groupOf returns the group of a page, "" for one that only links lead to.
func groupOf(target string) (name string) {
	longest := 0
	for _, g := range groups {
		for _, prefix := range g.prefixes {
			if strings.HasPrefix(target, prefix) && len(prefix) > longest {
				longest = len(prefix)
				name = g.name
			}
		}
	}
	return name
}

// settings are those of the generator. The pages load nothing from other hosts.
const settings = `site_name: berth
site_description: A clustered control plane for CSI storage and the jobs that use it
docs_dir: docs
site_dir: site
use_directory_urls: false
theme:
  name: mkdocs
  highlightjs: false
plugins: [search]
markdown_extensions: [toc: {permalink: true}]
nav:
`

// writeConfig writes the settings of the generator with the navigation.
func (s *site) writeConfig() error {
	slices.SortFunc(s.pages, func(a, b page) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.path, b.path))
	})
	var b strings.Builder
	b.WriteString(settings)
	for _, g := range groups {
		fmt.Fprintf(&b, "  - %q:\n", g.name)
		for _, p := range s.pages {
			if p.group == g.name {
				fmt.Fprintf(&b, "    - %q: %q\n", p.title, p.path)
			}
		}
	}
	return os.WriteFile(filepath.Join(s.out, "mkdocs.yml"), []byte(b.String()), 0o644)
}

// rank puts the first page, and that of a folder, before the others.
func rank(p page) int {
	if p.path == "index.md" || strings.HasSuffix(p.path, "README.md") {
		return 0
	}
	return 1
}
