package agent

import (
	"path/filepath"
	"slices"

	"berth/internal/opsocket"
	"berth/server/keys"
)

// ownFiles lists the files and directories of this agent that hold secrets, or may: no task of exec sees
// them. Certificates are public.
func (c *Config) ownFiles() []string {
	// A configuration may have secrets in its text, so its files belong to the list.
	files := slices.Concat([]string{opsocket.ConfigDir, c.DataDir, c.OperatorSocket}, c.sources, []string{
		c.TLS.KeyFile, c.TLS.CAKeyFile,
		c.Consul.KeyFile, c.Consul.TokenFile, c.Vault.KeyFile,
		c.Client.Drivers.Docker.Auth.Config,
	})
	files = append(files, filesOfKeys(&c.Server.Keyring.Source)...)
	files = append(files, filesOfKeys(c.Server.Keyring.Previous)...)
	for _, device := range c.Server.Fencing {
		for _, file := range device.SecretFiles {
			files = append(files, file)
		}
	}

	for i, file := range files {
		absolute, err := filepath.Abs(file)
		if file != "" && err == nil { // an error means that there is no working directory, and no such file
			files[i] = absolute
		}
	}

	// The order is fixed, so that the settings of the driver differ only if the list does.
	slices.Sort(files)
	files = slices.Compact(files)
	return slices.DeleteFunc(files, func(file string) bool { return file == "" })
}

// filesOfKeys lists the files of a source of keys, nil for none.
func filesOfKeys(s *keys.Source) (files []string) {
	if s == nil {
		return nil
	}
	files = append(files, s.File)
	if s.Transit != nil {
		files = append(files, s.Transit.TokenFile)
	}
	return files
}
