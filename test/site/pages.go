package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project are the pages of the repository that are not in docs.
var project = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// addDocs adds all files of docs.
func (s *site) addDocs() error {
	root := filepath.Join(s.repo, "docs")
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(s.repo, file)
		if err != nil {
			return err
		}
		source := filepath.ToSlash(relative)
		return s.add(source, placeOfPage(source))
	})
}

// addProject adds the pages beside docs.
func (s *site) addProject() error {
	for _, name := range project {
		err := s.add(name, placeOfPage(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a file of the repository to the site. Its links are changed if it is a page.
func (s *site) add(source, target string) error {
	text, err := os.ReadFile(filepath.Join(s.repo, source))
	if err != nil {
		return err
	}
	if path.Ext(source) != ".md" {
		return s.put(target, string(text))
	}
	linked, err := s.relink(string(text), source, target)
	if err != nil {
		return err
	}
	return s.addPage(target, linked)
}

// addPage writes a page and lists it.
func (s *site) addPage(target, text string) error {
	title, _, _ := strings.Cut(text, "\n")
	s.pages = append(s.pages, page{
		path:  target,
		title: strings.NewReplacer("# ", "", "`", "").Replace(title),
		group: groupOf(target),
	})
	return s.put(target, text)
}

// put writes a file of the site.
func (s *site) put(target, text string) error {
	file := filepath.Join(s.out, "docs", target)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// link is a link of Markdown, or a picture.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// relink changes the links of a page, whose file of the repository is source, for its place in the site.
func (s *site) relink(text, source, target string) (string, error) {
	var fault error
	linked := link.ReplaceAllStringFunc(text, func(found string) string {
		to := link.FindStringSubmatch(found)[1]
		file, fragment, _ := strings.Cut(to, "#")
		if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
			return found
		}
		place, err := s.placeOf(path.Join(path.Dir(source), file))
		if err != nil {
			fault = fmt.Errorf("%s: %w", source, err)
			return found
		}
		if fragment != "" {
			fragment = "#" + fragment
		}
		return "](" + relative(target, place) + fragment + ")"
	})
	return linked, fault
}

// placeOfPage returns where the site has a file of docs, or a page beside docs. The first page of the site is
// that of the repository.
func placeOfPage(source string) string {
	switch inDocs, isDoc := strings.CutPrefix(source, "docs/"); {
	case source == "README.md":
		return "index.md"
	case source == "docs/README.md":
		return "contents.md"
	case isDoc:
		return inDocs
	}
	return "project/" + source
}

// placeOf returns where the site has a file or a folder of the repository. It copies a file that is no page.
// A folder is represented by its README.
func (s *site) placeOf(source string) (string, error) {
	info, err := os.Stat(filepath.Join(s.repo, source))
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return s.placeOfFolder(source)
	}
	isDoc := strings.HasPrefix(source, "docs/")
	if isDoc || slices.Contains(project, source) {
		return placeOfPage(source), nil
	}
	text, err := os.ReadFile(filepath.Join(s.repo, source))
	if err != nil {
		return "", err
	}
	// As text: a browser shows it, and does not run it.
	place := "files/" + source + ".txt"
	return place, s.put(place, string(text))
}

// placeOfFolder is placeOf for a folder.
func (s *site) placeOfFolder(source string) (string, error) {
	readme := path.Join(source, "README.md")
	_, err := os.Stat(filepath.Join(s.repo, readme))
	if err == nil {
		return s.placeOf(readme)
	}
	entries, err := os.ReadDir(filepath.Join(s.repo, source))
	if err != nil {
		return "", err
	}
	place := "files/" + source + "/index.md"
	if slices.ContainsFunc(s.pages, func(p page) bool { return p.path == place }) {
		return place, nil
	}
	text := "# All of " + source + "\n\n"
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		file := path.Join(source, e.Name())
		at, err := s.placeOf(file)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("- [%s](%s)\n", s.titleOf(file), relative(place, at))
	}
	return place, s.addPage(place, text)
}

// titleOf returns the title of a page of the repository, and the name of another file.
func (s *site) titleOf(source string) string {
	text, err := os.ReadFile(filepath.Join(s.repo, source))
	first, _, _ := strings.Cut(string(text), "\n")
	title, isPage := strings.CutPrefix(first, "# ")
	if err != nil || !isPage || path.Ext(source) != ".md" {
		return path.Base(source)
	}
	return title
}

// relative returns the link from one page of the site to another file of it.
func relative(from, to string) string {
	up := strings.Repeat("../", strings.Count(from, "/"))
	return up + to
}
