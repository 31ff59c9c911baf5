package artifact

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/client/hooks/artifact/download"
	"berth/internal/conf"
	"berth/structs"
)

// Settings are the agent's `client { artifact {} }`: the bounds of downloads on this node. The dialect gives
// the names.
type Settings struct {
	// HTTPReadTimeout bounds the download of one artifact by HTTP, GitTimeout the download of a repository. A
	// file of the machine has the first.
	HTTPReadTimeout time.Duration `hcl:"http_read_timeout"`
	GitTimeout      time.Duration `hcl:"git_timeout"`
	// HTTPMaxSize bounds one answer of a server, and a repository on the disk.
	HTTPMaxSize conf.ByteSize `hcl:"http_max_size"`
	// DecompressionSizeLimit and DecompressionFileCountLimit bound the files of an archive.
	DecompressionSizeLimit      conf.ByteSize `hcl:"decompression_size_limit"`
	DecompressionFileCountLimit int           `hcl:"decompression_file_count_limit"`
	// FilesystemIsolationExtraPaths are further paths of the machine that a download may read. A source of
	// the kind file is in one of them. An element is "f:r:PATH" for a file and "d:r:PATH" for a directory,
	// with rx in the place of r for programs.
	FilesystemIsolationExtraPaths []string `hcl:"filesystem_isolation_extra_paths"`
	// AllowNetworks are loopback and link-local networks and networks of metadata services from which
	// artifacts may come, such as "127.0.0.0/8". Artifacts may come from all other networks.
	AllowNetworks []string `hcl:"allow_networks"`
	// SetEnvironmentVariables names the agent's variables that a download gets, separated by commas, for
	// example the variables of a proxy.
	SetEnvironmentVariables string `hcl:"set_environment_variables"`
}

// Unsupported names the settings of the dialect that berth rejects.
func (Settings) Unsupported() string {
	return "gcs_timeout hg_timeout s3_timeout disable_artifact_inspection disable_filesystem_isolation"
}

// DefaultSettings returns the bounds of the dialect.
func DefaultSettings() Settings {
	return Settings{
		HTTPReadTimeout:             30 * time.Minute,
		GitTimeout:                  30 * time.Minute,
		HTTPMaxSize:                 100_000_000_000,
		DecompressionSizeLimit:      100_000_000_000,
		DecompressionFileCountLimit: 4096,
	}
}

// The upper bounds of the settings.
const (
	maxTimeout = 7 * 24 * time.Hour
	maxBytes   = 1 << 60
	maxFiles   = 1 << 20

	maxNetworks = 256
)

// Validate names every fault.
func (s Settings) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, structs.Invalidf("client.artifact."+format, args...))
		}
	}

	for name, d := range map[string]time.Duration{
		"http_read_timeout": s.HTTPReadTimeout,
		"git_timeout":       s.GitTimeout,
	} {
		require(d > 0 && d <= maxTimeout, "%s: %s is not within 1ns to %s", name, d, maxTimeout)
	}

	for name, n := range map[string]conf.ByteSize{
		"http_max_size":            s.HTTPMaxSize,
		"decompression_size_limit": s.DecompressionSizeLimit,
	} {
		require(n >= 1 && n <= maxBytes, "%s: %d is not within 1 to %d bytes", name, n, maxBytes)
	}

	n := s.DecompressionFileCountLimit
	require(n >= 1 && n <= maxFiles, "decompression_file_count_limit: %d is not within 1 to %d", n, maxFiles)
	for _, text := range s.FilesystemIsolationExtraPaths {
		_, err := parseExtraPath(text)
		require(err == nil, "filesystem_isolation_extra_paths: %v", err)
	}

	require(len(s.AllowNetworks) <= maxNetworks, "allow_networks: at most %d networks", maxNetworks)
	_, err := download.ParseNetworks(s.AllowNetworks)
	require(err == nil, "allow_networks: %v", err)
	return structs.InvalidAll(faults)
}

// ownPaths are the paths that a download has its own of.
var ownPaths = []string{"/", "/artifact", "/berth", "/dev", "/proc", "/sys", "/run", "/tmp"}

// parseExtraPath returns the path of an element of FilesystemIsolationExtraPaths.
func parseExtraPath(text string) (string, error) {
	// The path may have colons.
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || !slices.Contains([]string{"f", "d"}, parts[0]) {
		return "", structs.Invalidf("%.80q has not the form f:r:FILE or d:r:DIRECTORY", text)
	}
	if !slices.Contains([]string{"r", "rx"}, parts[1]) {
		return "", structs.Invalidf("%.80q: a download only reads the files of the machine; expected r or rx", text)
	}
	path := parts[2]
	// below compares texts, so the path has to be a clean one.
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || slices.Contains(ownPaths, path) {
		return "", structs.Invalidf("%.80q: expected an absolute path, and none that every download has", text)
	}
	return path, nil
}

func (s Settings) extraPaths() []string {
	var paths []string
	for _, text := range s.FilesystemIsolationExtraPaths {
		path, err := parseExtraPath(text)
		if err == nil { // Validate has checked it
			paths = append(paths, path)
		}
	}
	return paths
}
