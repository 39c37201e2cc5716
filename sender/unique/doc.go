package unique
