// Command site prepares the pages of docs for MkDocs, which `make site` runs. Links that leave docs lead to
// copies of the files, and each state in which something waits gets a page of its own.
//
//	site -repo DIR -out DIR
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	var s site
	flag.StringVar(&s.repo, "repo", ".", "the root of the repository")
	flag.StringVar(&s.out, "out", "", "the folder for mkdocs.yml and the pages, which is emptied first")
	flag.Parse()
	err := s.write()
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// site is one preparation.
type site struct {
	repo, out string
	pages     []page
}

// page is a page of the site.
type page struct {
	path  string // below docs, with slashes
	title string
	group string // of the navigation
}

// write writes everything.
func (s *site) write() error {
	if s.out == "" {
		return errors.New("-out is required: a folder")
	}
	err := os.RemoveAll(s.out)
	if err == nil {
		err = s.addDocs()
	}
	if err == nil {
		err = s.addProject()
	}
	if err == nil {
		err = s.addStates()
	}
	if err == nil {
		err = s.writeConfig()
	}
	return err
}
