"""`python -m wizard` is `llm-setup`."""

from wizard.cli.main import main

if __name__ == "__main__":
    main()
