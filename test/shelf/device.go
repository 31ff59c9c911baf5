package shelf

import (
	"os"
	"os/exec"
	"slices"
	"strings"
)

// isDirectory reports whether a volume is a directory instead of an image: its name says so. A test with many
// volumes at a time uses directories, because a machine has few loop devices.
func isDirectory(id string) bool {
	return strings.HasPrefix(id, "shelf-dir-") || isFUSE(id)
}

func (s *shelf) stageDirectory(id, path string) error {
	files := s.path("vol", id, "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return err
	}
	if err := command("mount", "--bind", files, path); err != nil {
		return err
	}
	return os.WriteFile(s.path("vol", id, "staged", s.node), nil, 0o600)
}

// device returns the loop device that shows a volume, "" if none does.
func (s *shelf) device(id string) string {
	text, _ := os.ReadFile(s.path("vol", id, "device"))
	return string(text)
}

// stageDevice shows the image as a device.
func (s *shelf) stageDevice(id string) error {
	if s.device(id) != "" {
		return nil
	}
	out, err := exec.Command("losetup", "-f", "--show", s.disk(id)).Output()
	if err != nil {
		return err
	}
	device := strings.TrimSpace(string(out))
	if err := os.WriteFile(s.path("vol", id, "device"), []byte(device), 0o600); err != nil {
		return err
	}
	return os.WriteFile(s.path("vol", id, "staged", s.node), nil, 0o600)
}

func (s *shelf) unstageDevice(id string) error {
	device := s.device(id)
	if device == "" {
		return nil
	}
	if err := command("losetup", "-d", device); err != nil {
		return err
	}
	return os.Remove(s.path("vol", id, "device"))
}

// publishDevice mounts the device over a file.
func (s *shelf) publishDevice(id, to string) error {
	if !slices.Contains(s.nodes(id, "staged"), s.node) {
		return s.fault("%s is published on %s, where it is not staged", id, s.node)
	}
	if mounted(to) {
		return nil
	}
	if err := os.WriteFile(to, nil, 0o600); err != nil {
		return err
	}
	return command("mount", "--bind", s.device(id), to)
}
