package config

import "sync"

// Holder keeps the one current Config. Readers share an immutable value and never wait for a writer that
// is still editing its copy.
type Holder struct {
	update sync.Mutex // one writer at a time: no update is lost
	mu     sync.RWMutex
	config *Config
}

// NewHolder begins with a copy of c.
func NewHolder(c *Config) *Holder { return &Holder{config: c.Copy()} }

// Get returns the current value. It must not be changed.
func (h *Holder) Get() *Config {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.config
}

// Update lets edit change a deep copy of the current value, makes that the current one and returns it.
func (h *Holder) Update(edit func(*Config)) *Config {
	h.update.Lock()
	defer h.update.Unlock()
	c := h.Get().Copy()
	edit(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.config = c
	return c
}
